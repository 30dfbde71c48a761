import dataclasses
import sys

import pytest

from passk_jax import plugins
from passk_jax.errors import InputError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'path', [*sys.path])
    return tmp_path


@pytest.mark.parametrize(
    ('value', 'answer'),
    [
        ('my.py:f', True),
        ('/a b/my.py:MyTask', True),
        ('a:b/my.py:f2', True),
        ('my.py', False),
        ('my.py:', False),
        ('my.py:2f', False),
        ('my.py:f g', False),
        ('.py:f', False),
        ('maze', False),
        ('module:f', False),
        ('', False),
        (None, False),
        (3, False),
    ],
)
def test_a_place_is_a_file_and_a_name(value, answer):
    assert plugins.is_place(value) is answer
    if isinstance(value, str) and not answer:
        with pytest.raises(InputError, match=r'must be file\.py:name'):
            plugins.split_place(value)


def test_a_file_runs_once_and_imports_what_lies_beside_it(elsewhere):
    folder = elsewhere / 'mine'
    folder.mkdir()
    (folder / 'beside_it.py').write_text('VALUE = 7')
    path = folder / 'my.py'
    path.write_text(
        'import dataclasses\nimport beside_it\n'
        '@dataclasses.dataclass\nclass A:\n    x: "int" = beside_it.VALUE\n'
        'def f():\n    return A()'
    )
    function = plugins.load('mine/my.py:f')
    assert dataclasses.asdict(function()) == {'x': 7}
    before = plugins.digests_in(['mine/my.py:f'])
    path.write_text('f = None')
    # A run keeps the code that it began with, and says which that was.
    for place in ('mine/my.py:f', './mine/my.py:f', f'{path}:f'):
        assert plugins.load(place) is function
    assert plugins.digests_in({'a': ('x', ['mine/my.py:A', 'maze'])}) == before


def test_a_name_of_a_package_is_no_other_file(elsewhere):
    (elsewhere / 'json.py').write_text('def f():\n    import json\n    return json')
    import json

    assert plugins.load('json.py:f')() is json


def test_a_file_that_has_not_run_has_a_digest_too(elsewhere):
    (elsewhere / 'my.py').write_text('raise ValueError')
    (digest,) = plugins.digests_in({'reward': 'my.py:f'}).values()
    assert digest == plugins.digest(b'raise ValueError')
    with pytest.raises(InputError, match=r'^absent\.py: no such file$'):
        plugins.digests_in('absent.py:f')


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (None, 'my.py: no such file'),
        ('', 'my.py defines no f; it has []'),
        (
            'import dataclasses\nfrom os import path, getcwd\nfrom enum import Enum\n'
            'def g(): pass\nclass G(Enum): a = 1\nn = 1',
            "my.py defines no f; it has ['g', 'G', 'n']",
        ),
        ('g = 1\n_h = 2', "my.py defines no f; it has ['g']"),
        ('x = 1\nx.y', "my.py, line 2: AttributeError: 'int' object has no attribute"),
        ('\ndef f(:', 'my.py, line 2: SyntaxError: '),
        ('import sys\nsys.exit(3)', 'my.py, line 2: SystemExit: 3'),
        (
            'import absent_one',
            'my.py, line 1: ModuleNotFoundError: No module',
        ),
        ('raise ValueError("a\\nb")', 'my.py, line 1: ValueError: a'),
        (b'\xff', 'my.py, line 1: SyntaxError: '),
        (b'\0', 'my.py'),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_with_its_place(
    content, message, elsewhere
):
    if content is not None:
        content = content.encode() if isinstance(content, str) else content
        (elsewhere / 'my.py').write_bytes(content)
    with pytest.raises(InputError) as error:
        plugins.load('my.py:f')
    assert str(error.value).startswith(message)
    assert '\n' not in str(error.value)


def test_a_directory_is_no_file(elsewhere):
    (elsewhere / 'my.py').mkdir()
    with pytest.raises(InputError, match=r'^my\.py: Is a directory'):
        plugins.load('my.py:f')


def test_an_error_that_a_file_led_to_is_explained_and_no_other(elsewhere):
    (elsewhere / 'my.py').write_text('import json\ndef f(text):\n    json.loads(text)')
    function = plugins.load('my.py:f')
    with pytest.raises(ValueError, match='Expecting') as error:
        function('{')
    assert plugins.explain(error.value).startswith('my.py, line 3: JSONDecodeError: ')
    with pytest.raises(ValueError, match='Expecting') as error:
        __import__('json').loads('{')
    assert plugins.explain(error.value) is None


def test_a_definition_has_a_place(elsewhere):
    (elsewhere / 'my.py').write_text(
        '\nclass A:\n  @staticmethod\n  def g():\n    pass\n\ndef f():\n  pass'
    )
    A = plugins.load('my.py:A')
    assert plugins.where(A) == 'my.py, line 2 (A)'
    assert plugins.where(A.g) == 'my.py, line 3 (A.g)'
    assert plugins.where(plugins.load('my.py:f')) == 'my.py, line 7 (f)'
    assert plugins.where(len) == 'len'
