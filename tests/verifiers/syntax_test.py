import pytest

from passk_jax.verifiers.syntax import parse
from passk_jax.verifiers.tokens import UnreadableError
from passk_jax.verifiers.trees import Apply, Number


def render(tree):
    if isinstance(tree, Number):
        return str(tree.value)
    if isinstance(tree, Apply):
        return f'{tree.operation}({",".join(map(render, tree.arguments))})'
    return tree.name


@pytest.mark.parametrize(
    ('text', 'tree'),
    [
        ('1+2-3', '+(1,2,-3)'),
        ('-x^2', '-(^(x,2))'),
        ('--2', '2'),
        ('2xy', '*(2,x,y)'),
        ('a/b/c', '/(/(a,b),c)'),
        ('1/2x', '*(/(1,2),x)'),
        (r'a\cdot b\times c', '*(a,b,c)'),
        (r'a\div b', '/(a,b)'),
        (r'\frac12', '/(1,2)'),
        (r'\frac1234', '/(1,2)34'),
        (r'\frac1e-9', '+(/(1,e),-9)'),
        (r'\frac\pi2', '/(pi,2)'),
        (r'\frac1{\text{e}}', '/(1,e)'),
        (r'3\frac12', '+(3,/(1,2))'),
        (r'3\frac32', '*(3,/(3,2))'),
        (r'x\frac12', '*(x,/(1,2))'),
        ('2^10', '^(2,10)'),
        ('2^{3^2}', '^(2,^(3,2))'),
        ('2^3^2', '^(2,^(3,2))'),
        ('x^-1', '^(x,-1)'),
        ('ab^2', '*(a,^(b,2))'),
        (r'\sqrt12', 'sqrt(12)'),
        (r'\sqrt[3]{x}', 'root(x,3)'),
        ('sqrt(2)/2', '/(sqrt(2),2)'),
        (r'\binom52', 'binom(5,2)'),
        ('5!', '!(5)'),
        ('(n+1)!', '!(+(n,1))'),
        ('|x|+|y|', '+(abs(x),abs(y))'),
        (r'\lfloor x\rfloor', 'floor(x)'),
        (r'\log 3/\log 2', '/(log(3),log(2))'),
        (r'\log_2 3', 'log(3,2)'),
        (r'\log_{10}(x)', 'log(x,10)'),
        (r'\sin 2x\cos x', '*(sin(*(2,x)),cos(x))'),
        (r'\sin(x)y', '*(sin(x),y)'),
        (r'\sin^2 x', '^(sin(x),2)'),
        (r'\sin^{-1}x', 'arcsin(x)'),
        (r'\ln t', 'ln(t)'),
        ('7*sin(pi*x/5)+1', '+(*(7,sin(/(*(pi,x),5))),1)'),
        (r'30^\circ', '*(30,/(pi,180))'),
        (r'50\%', '/(50,100)'),
        ('a_1+a_{n+1}', '+(a_1,a_n+1)'),
        ("f'(x)", "*(f',x)"),
        (r'\theta', 'theta'),
        ('2i', '*(2,i)'),
    ],
)
def test_a_text_has_this_tree(text, tree):
    if tree.endswith('34'):
        # Two numbers side by side are no product.
        with pytest.raises(UnreadableError):
            parse(text)
    else:
        assert render(parse(text)) == tree


@pytest.mark.parametrize(
    'text',
    ['', '2 3', '2+', '(', ')', '(1', '1)', '{', r'\frac{1}', r'\int x', 'even', 'x==1',
     '5!!!!', '|x', r'\sin', '^2', '_1', r'\text{cm}', '1,2', 'x_', r'\sin^{-1}',
     r'\frac.53', r'\frac1,000',
     r'\tan_2 x', '(' * 100 + '1' + ')' * 100, '2^' * 200 + '2', '1/' * 100 + '1',
     r'\sqrt{' * 100 + '1' + '}' * 100],
)  # fmt: skip
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(UnreadableError):
        parse(text)


def test_a_long_sum_is_not_deep():
    assert len(parse('+'.join(['x'] * 250)).arguments) == 250
    assert len(parse('*'.join(['x'] * 250)).arguments) == 250
