"""The examples in the docstrings of the package hold."""

import doctest
import importlib
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODULES = [
    '.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__')
    for path in sorted((ROOT / 'passk_jax').rglob('*.py'))
    if '>>> ' in path.read_text()
]


@pytest.mark.parametrize('module', MODULES)
def test_the_examples_of_a_module_hold(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted
    assert not result.failed
