"""Logs the first problem before a run trains, and the verdict on its gold.

This reveals a wrong field, a chat template that hides the question, or a verifier that
rejects the right answer, before any policy is made. A gold is a problem's right answer.
"""

from collections.abc import Mapping

import numpy as np
from absl import logging

from passk_jax import plugins
from passk_jax.data.batches import EvaluationBatches, TokenizedProblems
from passk_jax.errors import InputError
from passk_jax.models.tokenizer import Tokenizer
from passk_jax.setup.checks import check_best_category, warn_of_settings
from passk_jax.setup.memory import warn_of_memory
from passk_jax.setup.model import check_same_tokens
from passk_jax.setup.setup import Setup
from passk_jax.tasks import Task, right_response
from passk_jax.types import Problem
from passk_jax.verifiers.pool import CRASH, TIMEOUT

_NOTHING_TO_JUDGE = 'the task has no right response that could be judged'


def announce(
    setup: Setup, splits: Mapping[str, EvaluationBatches], *, is_new: bool
) -> None:
    """Warns of settings and memory, and shows the first problem of a new run.

    Args:
        setup: that of the run.
        splits: the problems that the run is evaluated on, by split.
        is_new: whether the run has no checkpoint.

    Raises:
        InputError: the task judges a gold wrong, a new run begins with a policy that
            was trained with other tokens, or no problem has the category that selects
            the best checkpoint.
    """
    check_best_category(setup.config, splits)
    if is_new:
        check_same_tokens(setup.tokenizer, setup.config.init.checkpoint)
    warn_of_settings(setup.config)
    problems = setup.read_training()
    parts = setup.config, setup.policy, setup.mesh
    warn_of_memory(*parts, prompt_tokens=problems.width)
    if is_new:
        _warn_of_shared(setup.task, problems, splits)
        arguments = setup.task, problems, setup.tokenizer
        if error := show_first_problem(*arguments, split='training'):
            raise InputError(error)


def _warn_of_shared(
    task: Task, training: TokenizedProblems, splits: Mapping[str, EvaluationBatches]
) -> None:
    """Warns if problems of a user's task are trained on and evaluated.

    Tasks of this program keep their splits apart themselves.
    """
    if not plugins.is_place(task.name):
        return
    seen = {task.content_hash(problem) for problem in training.source}
    for split in splits.keys() - {'train'}:
        problems = splits[split].tokenized.source
        if shared := sum(task.content_hash(x) in seen for x in problems):
            logging.warning(
                'the training problems have %d of the %d problems of split %r, so its '
                'evaluations measure memory too: put each problem into one split',
                *(shared, len(problems), split),
            )


def show_first_problem(
    task: Task, problems: TokenizedProblems, tokenizer: Tokenizer, *, split: str
) -> str:
    """Logs the prompt of the first problem and the verdict on its gold.

    Judges the first gold of every category, because files, data sets and sizes differ
    in category.

    Args:
        task: the task of the problems.
        problems: the problems whose prompts are short enough.
        tokenizer: the policy's tokenizer.
        split: name of the problems' split, for the log.

    Returns:
        Which gold is judged wrong and what to do about it; ``''`` if none is. A timeout
        or a crash of the verifier is no verdict.
    """
    firsts: dict[str, Problem] = {}
    for index in problems.indices:
        problem = problems.source[int(index)]
        firsts.setdefault(problem.category, problem)
    first = next(iter(firsts.values()))
    responses = {name: right_response(task, p) for name, p in firsts.items()}
    judged = [name for name, response in responses.items() if response]
    correct: dict[str, bool] = {}
    if judged:
        tried = [firsts[name] for name in judged]
        verdicts = task.verify(tried, [[responses[name]] for name in judged])
        none = np.zeros_like(verdicts.correct)
        failed = [verdicts.failures.get(kind, none) for kind in (TIMEOUT, CRASH)]
        for i, name in enumerate(judged):
            if not np.any(failed, axis=0)[i, 0]:
                correct[name] = bool(verdicts.correct[i, 0])
    word = 'right' if correct.get(first.category) else 'wrong'
    gold = f'judged {word}:\n{responses[first.category]}'
    logging.info(
        'the first %s problem (category %s) as the policy reads it, %d tokens:\n%s\n'
        '--- its gold as a response: %s\n---',
        split,
        first.category,
        len(problems.prompts[0]),
        tokenizer.decode(problems.prompts[0]),
        gold if first.category in correct else _NOTHING_TO_JUDGE,
    )
    for name, is_correct in correct.items():
        if not is_correct:
            error = task.verdict(firsts[name], responses[name]).error
            return (
                f'problem {firsts[name].id} of {name}: its gold as a response, '
                f'{responses[name][:80]!r}, is judged wrong ({error}): name the field '
                'that has the answer, or leave the problem out'
            )
    return ''
