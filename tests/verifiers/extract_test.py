import pytest

from passk_jax.verifiers.extract import extract_boxed


@pytest.mark.parametrize(
    ('text', 'answer'),
    [
        ('plain', 'plain'),
        ('', ''),
        (r'\boxed{}', ''),
        (r'so \boxed{a{b}c} and more', 'a{b}c'),
        (r'\boxed{1} then \boxed{204}', '204'),
        (r'\boxed{open {brace}', 'open {brace}'),
        ('boxed UP$ and so on', 'UP'),
        ('boxed UP and so on', 'UP and so on'),
        ('my answer is boxed', ''),
        ('<think>x</think><answer>y</answer> z', 'y'),
        ('<answer>a</answer><answer>b</answer>', 'b'),
        (r'\boxed{out}<answer>in</answer>', 'in'),
        (r'<answer>\boxed{in}</answer>\boxed{out}', 'in'),
        ('<answer>never closed', '<answer>never closed'),
        ('</answer>a<answer>b', 'b'),
    ],
)
def test_the_answer_is_found(text, answer):
    assert extract_boxed(text) == answer
