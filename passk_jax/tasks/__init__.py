"""Tasks by name: where problems come from, their prompts, and verdicts on responses.

To add a task, write a :class:`~passk_jax.tasks.task.Task` in its own file or folder and
add a row to ``TASKS``. :mod:`passk_jax.tasks.abilities` lists what a task may offer
beyond that. A task's module loads on first use. No import here starts a JAX backend,
because worker processes import tasks.
"""

import contextlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from passk_jax import plugins
from passk_jax.config import checks
from passk_jax.errors import InputError
from passk_jax.tasks.abilities import (
    Demonstrations,
    Drawing,
    Parts,
    RightResponse,
)
from passk_jax.tasks.task import Task, add_defaults, class_of_file, make_user_task
from passk_jax.types import Problem, Verdict, Verdicts

# Name of the task -> module:class.
TASKS: dict[str, str] = {
    'arc': 'passk_jax.tasks.arc.task:ArcTask',
    'enigmata': 'passk_jax.tasks.enigmata.task:EnigmataTask',
    'korbench': 'passk_jax.tasks.korbench.task:KorbenchTask',
    'math': 'passk_jax.tasks.math.task:MathTask',
    'mathvision': 'passk_jax.tasks.mathvision.task:MathVisionTask',
    'maze': 'passk_jax.tasks.maze.task:MazeTask',
    'mixture': 'passk_jax.tasks.mixture:MixtureTask',
    'mmmu': 'passk_jax.tasks.mmmu.task:MmmuTask',
    'reasoning_gym': 'passk_jax.tasks.reasoning_gym.task:ReasoningGymTask',
    'records': 'passk_jax.tasks.rewarded_records:RecordsTask',
    'visual_counting': 'passk_jax.tasks.visual_counting:VisualCountingTask',
    'visual_maze': 'passk_jax.tasks.maze.visual:VisualMazeTask',
}

Ability = TypeVar('Ability')


def task_class(name: str) -> type[Task]:
    """Returns the class of a task; it can parse and judge without an instance.

    Args:
        name: a key of ``TASKS``, or ``file.py:Class`` of a user's own.

    Raises ValueError for an unknown name, and for a class that is no task.
    """
    if plugins.is_place(name):
        return class_of_file(name)
    if name not in TASKS:
        raise InputError(
            f'task {name!r} is none of {sorted(TASKS)}, nor one of your own, '
            f'{plugins.FORM}'
        )
    return pkgutil.resolve_name(TASKS[name])


def make_task(
    name: str, params: Mapping[str, Any], *, path: str = 'task.params'
) -> Task:
    """Makes a task.

    Args:
        name: as in :func:`task_class`.
        params: a value for every field of the task's ``Params``; lists count as tuples.
            A user's own task may leave out those with a default.
        path: the dotted key of the parameters in the configuration, for messages.

    Raises:
        ValueError: an unknown name; an unknown, missing or impossible parameter; or a
            user's class that cannot be made from its parameters.
    """
    cls = task_class(name)
    if plugins.is_place(name):
        return make_user_task(
            cls, checks.build(cls.Params, add_defaults(cls, params), path=path)
        )
    return cls(checks.build(cls.Params, params, path=path))


def require(
    task: Task | type[Task], ability: type[Ability], *, needed_by: str
) -> Ability:
    """Returns the task if it has an ability, an optional interface.

    Args:
        task: any task, or the class of one for an ability that takes no instance.
        ability: a protocol of :mod:`passk_jax.tasks.abilities`.
        needed_by: the option that needs it, such as ``"init.kind='warm_start'"``.

    Raises:
        ValueError: the task lacks the ability; the message names the option and the
            tasks that have it.
    """
    if isinstance(task, ability):
        return task
    able_tasks = [
        name for name in sorted(TASKS) if isinstance(task_class(name), ability)
    ]
    raise InputError(
        f'{needed_by} needs a task with the ability {ability.__name__}, which task '
        f'{task.name!r} lacks; these tasks have it: {able_tasks}'
    )


def right_response(task: Task, problem: Problem) -> str:
    """Returns a response that must be right; ``''`` if the task has none."""
    if isinstance(task, RightResponse):
        return task.right_response(problem)
    if isinstance(task, Demonstrations):
        kind = task.demonstrations[0]
        return task.demonstration(problem, kind=kind, rng=np.random.default_rng(0))
    return ''


def weights_of(task: Task) -> Mapping[str, int] | None:
    """Returns the weights by which training draws parts; ``None`` without parts."""
    return task.weights if isinstance(task, Parts) else None


def drawing_of(name: str) -> Callable[..., str] | None:
    """Returns a task's ``draw``; ``None`` if the task is unknown or has none."""
    task = None
    # A report may be of another version, or of a task whose file is gone.
    with contextlib.suppress(InputError):
        task = task_class(name)
    return task.draw if isinstance(task, Drawing) else None
