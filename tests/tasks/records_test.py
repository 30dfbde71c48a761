import pytest

from passk_jax.tasks import records


def test_lines_keep_their_numbers(tmp_path):
    file = tmp_path / 'a.jsonl'
    file.write_text('{"a": 1}\n\n  \n[2]\n')
    assert records.read_lines(file) == [(1, {'a': 1}), (4, [2])]


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (b'1\n{', r'a\.jsonl: line 2: not JSON'),
        (b'[' * 100_000, 'line 1: not JSON'),
        (b'\xff', r"a\.jsonl' cannot be read: .*utf-8"),
        (None, r"a\.jsonl' cannot be read: .*No such file"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, content, message):
    file = tmp_path / 'a.jsonl'
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        records.read_lines(file)


def test_equal_problems_differ_in_blanks_and_capitals_at_most():
    digest = records.content_hash('Find $x$.', 'b')
    assert records.content_hash(' find\n$X$. ', 'B') == digest
    variants = [('Find $x$. b',), ('Find $x.$', 'b'), ('b', 'Find $x$.')]
    assert len({records.content_hash(*parts) for parts in variants} | {digest}) == 4
    # A response may hold half a character.
    assert records.content_hash('\ud800') != records.content_hash('')
