"""Lists the tasks, or shows a problem: ``python -m passk_jax.tasks``.

    python -m passk_jax.tasks
    python -m passk_jax.tasks --task=maze --split=train --index=3

The first prints each task with its number of problems, their licence and how to get
them. The second prints a problem, its prompt and, if the task can make one, a right
answer. ``--data_dir`` is the directory of the task's files. The parameters are those of
the task's example (``Task.about``); a run's config may set others. No device is used.
"""

import json

from passk_jax import cli, tasks
from passk_jax.errors import InputError
from passk_jax.types import Picture, Problem


def listing() -> str:
    """Lists every task of ``TASKS``, four lines each."""
    parts = []
    for name in tasks.TASKS:
        about = tasks.task_class(name).about
        rows = ('problems', about.size), ('licence', about.licence)
        lines = [
            f'  {key:<10}{text}' for key, text in (*rows, ('source', about.source))
        ]
        parts.append('\n'.join([f'{name}: {about.summary}', *lines]))
    return '\n\n'.join(parts) + '\n'


def show_problem(name: str, *, split: str, index: int, data_dir: str) -> str:
    """Formats a problem of a task's example, its prompt and a right answer.

    Raises ValueError for an unknown task or split, a missing file, and an index outside
    the split.
    """
    task = tasks.make_task(name, tasks.task_class(name).about.example)
    problems = task.source(split, data_dir=data_dir)
    if not 0 <= index < len(problems):
        raise InputError(
            f'{index=} must lie in [0, {len(problems)}), the problems of split '
            f'{split!r} of the example of task {name!r}'
        )
    problem = problems[index]
    head = f'{name}, {split}, problem {index} of {len(problems)}, {problem.category}'
    sections = {
        head: json.dumps(dict(problem.data), ensure_ascii=False),
        'prompt': problem.prompt.rstrip('\n'),
    }
    if problem.images:
        sections['pictures'] = '\n'.join(map(_describe, problem.images))
    if answer := right_answer(task, problem):
        sections['right answer'] = answer
    return ''.join(f'--- {title}\n{text}\n\n' for title, text in sections.items())


def _describe(picture: Picture) -> str:
    if isinstance(picture, str):
        return picture
    if isinstance(picture, bytes):
        return f'{len(picture)} bytes'
    return f'{picture.shape[1]} x {picture.shape[0]} pixels'


def right_answer(task: tasks.Task, problem: Problem) -> str:
    """Returns a right response or the stored answer; ``''`` if there is neither."""
    return tasks.right_response(task, problem) or str(problem.data.get('answer', ''))


def main(
    *,
    task: str | None = None,
    split: str | None = None,
    index: int | None = None,
    data_dir: str | None = None,
) -> None:
    """Prints the tasks, or a problem of one."""
    if task is not None:
        text = show_problem(
            task, split=split or 'test', index=index or 0, data_dir=data_dir or ''
        )
    elif (split, index, data_dir) == (None, None, None):
        text = listing()
    else:
        raise InputError('--split, --index and --data_dir need a --task')
    print(text, end='')


if __name__ == '__main__':
    cli.run(main)
