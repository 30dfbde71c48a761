from passk_jax.verifiers.forms import is_deep, is_read
from passk_jax.verifiers.reading import read


def test_a_form_is_read_if_all_its_parts_are():
    for text in ('5', r'\{1, x^2\}', r'3 \pmod 7', r'\begin{pmatrix}1\\2\end{pmatrix}'):
        assert is_read(read(text))
        assert not is_deep(read(text))
    for text in (r'\int x', r'1, \int x', r'\int x \text{ cm}', r'\int x \pmod 7'):
        assert not is_read(read(text))
        assert not is_deep(read(text))


def test_what_is_too_deep_is_not_read():
    deep = '2' + '^2' * 99
    for text in ('9!!!!', deep, f'1, {deep}', rf'{deep}\text{{ cm}}', f'x={deep}'):
        assert is_deep(read(text))
        assert not is_read(read(text))
