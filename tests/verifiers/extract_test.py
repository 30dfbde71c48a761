import pytest

from passk_jax.verifiers.extract import extract_boxed, last_box


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


@pytest.mark.parametrize(
    ('text', 'answer'),
    [
        (r'\boxed{204}', '204'),
        (r'\boxed{1} then \boxed{204} then 3', '204'),
        (r'\boxed{\boxed{5}}', '5'),
        (r'\boxed {\frac{1}{2}}', r'\frac{1}{2}'),
        (r'\boxed{}', ''),
        (r'\boxed{\{1,2\}}', r'\{1,2\}'),
        (r'\boxed{\left\{ x \right.}', r'\left\{ x \right.'),
        (r'\boxed{[0,1\}}', r'[0,1\}'),
        (r'\boxed{a \\{b}}', r'a \\{b}'),
        ('', None),
        ('204', None),
        ('boxed{204}', None),
        (r'\boxed 5', None),
        # Cut off, or more than one token: LaTeX boxes the 1 of 12.
        (r'\boxed5', None),
        (r'$\boxed 5$', '5'),
        (r'$x = \boxed5$.', '5'),
        (r'\[\boxed 5 \]', '5'),
        (r'\(\boxed{1}\), then \(\boxed C\)', 'C'),
        (r'$\boxed 12$', None),
        (r'$\boxed 1 2$', None),
        (r'$\boxed 5x$', None),
        (r'$\boxed 5 cm$', None),
        (r'$\boxed{1}, \boxed -5$', None),
        (r'$\boxed{1}, \boxed(5)$', None),
        (r'$\boxed{1}, \boxed.5$', None),
        (r'$\boxed{1}, \boxed\pi$', None),
        (r'\boxed{1}, \boxed 5 $\pi$', None),
        (r'\boxed{1}, a \boxed C', '1'),
        (r'\boxed.\boxed{5}', '5'),
        (r'\boxed{204', None),
        (r'\boxed{1} \boxed{20', None),
        (r'\boxed{204\}', None),
        (r'\boxed{1} I used the \boxed command.', '1'),
        (r'\boxed{1}, in $\boxed$ or `\boxed`, as \boxedanswer and \boxed, ask', '1'),
        (r'\boxed{1} then \boxed 2', None),
        (r'\boxed{1} then \boxed\frac12', None),
        (r'\boxed{1} then $\boxed', None),
        (r'\boxed{1} then \boxed ' + '\n', None),
        (r'\boxed{1} then \boxed{2} then \boxed{', None),
        (r'\boxed{1 \boxed', None),
        ('<answer>204</answer>', None),
    ],
)
def test_the_last_box_is_read_strictly(text, answer):
    assert last_box(text) == answer
