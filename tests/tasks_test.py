import subprocess
import sys

import pytest

from passk_jax import tasks


def test_an_unknown_task_names_the_choices():
    with pytest.raises(ValueError, match=r"task 'mazes' is none of \['maze'\]"):
        tasks.make_task('mazes', {})


def test_a_task_is_listed_under_its_own_name():
    assert all(task.name == name for name, task in tasks.TASKS.items())


def test_tasks_start_no_jax_backend_and_never_import_tensorflow(tmp_path):
    script = """
import sys
import jax
from passk_jax import tasks
from passk_jax.verifiers import extract, maze, maze_vectorized
params = dict(generator='wilson', wall_probability=0.0, min_path=0, max_path=0,
              train_sizes=[7], train_counts=[5], validation_sizes=[],
              validation_counts=[], test_sizes=[], test_counts=[], seed=0,
              prompt='bare')
task = tasks.make_task('maze', params)
source = task.source('train', data_dir=sys.argv[1])
assert not task.verdict(source[0], 'U').correct
assert jax._src.xla_bridge._backends == {}, jax._src.xla_bridge._backends
assert not {'tensorflow', 'torch'} & sys.modules.keys()
"""
    command = [sys.executable, '-c', script, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
