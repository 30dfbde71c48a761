"""A run goes on from the records that it wrote, and from no others."""

import shutil

import pytest

from tests import tiny


@pytest.fixture
def workdir(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / 'run')


def halve(content):
    lines = content.splitlines(keepends=True)
    return b''.join(lines[: len(lines) // 2])


def flip(content):
    return content[:-4] + bytes([content[-4] ^ 1]) + content[-3:]


@pytest.mark.parametrize(
    ('name', 'damage'),
    [
        ('evaluation/validation_step_00000002.jsonl', halve),
        ('evaluation/test_step_00000000.jsonl', flip),
        ('rollouts/step_00000002.jsonl', flip),
        ('timing.jsonl', halve),
        ('digests.jsonl', halve),
    ],
)
def test_damaged_records_of_earlier_steps_are_a_loss(workdir, caplog, name, damage):
    file = workdir / name
    file.write_bytes(damaged := damage(file.read_bytes()))
    lost = f'lacks what its run wrote: {name} as it was before step 5'
    with pytest.raises(ValueError, match=f'{lost}.*--accept_loss'):
        tiny.run(tiny.make_config(), workdir)
    assert file.read_bytes() == damaged
    assert tiny.run(tiny.make_config(), workdir, accept_loss=True)
    assert f'{lost}. The run goes on without it' in caplog.text


def test_a_flipped_digit_of_the_metrics_is_found(workdir):
    file = workdir / 'metrics.jsonl'
    text = file.read_text()
    place = text.index('"entropy": ') + len('"entropy": ')
    assert text[place].isdigit()
    changed = '1' if text[place] != '1' else '2'
    file.write_text(text[:place] + changed + text[place + 1 :])
    with pytest.raises(ValueError, match=r'wrote: metrics\.jsonl as it was before'):
        tiny.run(tiny.make_config(), workdir)


def test_the_digests_of_an_older_checkpoint_serve_where_the_newest_is_damaged(workdir):
    """The run goes on from the older one then."""
    commits = sorted((workdir / 'checkpoints').glob('*/commit.json'))
    assert len(commits) > 1
    commits[-1].write_text('{}')
    assert tiny.run(tiny.make_config(), workdir)
    file = workdir / 'rollouts' / 'step_00000000.jsonl'
    file.write_bytes(file.read_bytes()[:-1])
    sorted((workdir / 'checkpoints').glob('*/commit.json'))[-1].write_text('{}')
    with pytest.raises(ValueError, match=r'step_00000000\.jsonl as it was before'):
        tiny.run(tiny.make_config(), workdir)
