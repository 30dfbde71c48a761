"""The evaluations that ``compare`` reads, and checks that they are comparable."""

import dataclasses
import glob
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from passk_jax.config import SamplingOptions
from passk_jax.errors import InputError
from passk_jax.files import parse_json, read_json
from passk_jax.runs.records import evaluation_name
from passk_jax.runs.saved_config import config_file

_OPTIONS = tuple(field.name for field in dataclasses.fields(SamplingOptions))
_STEP = re.compile(r'_step_(\d+)\.jsonl$')


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The records of one evaluation.

    Attributes:
        file: absolute path of the records.
        chosen: whether the file was found in a run directory; else a user named it.
        seed: seed of the run that contains the file; ``None`` outside of a run.
        counts: problem id -> (n responses, c correct ones).
        problems: problem id -> (category, digest). Old records have no digest, and
            records of other programs have neither; ``None`` if missing.
        sampling: the options of its sampling, as far as they are known.
    """

    file: pathlib.Path
    chosen: bool
    seed: int | None
    counts: Mapping[int, tuple[int, int]]
    problems: Mapping[int, tuple[Any, Any]]
    sampling: Mapping[str, Any]


def read_evaluations(
    runs: Iterable[str], *, split: str, step: int | None
) -> list[Evaluation]:
    """Reads one evaluation of each run; sorts them by seed if every run has one.

    Args:
        runs: run directories or files of records.
        split, step: which evaluation to read in run directories; ``step=None``: the
            last one of each run.

    Raises:
        InputError: a run or evaluation is missing or damaged.
    """
    evaluations = []
    for run in runs:
        file, chosen = _find(pathlib.Path(run).expanduser(), split, step)
        file = pathlib.Path(os.path.abspath(file))
        config = _config_of(file)
        evaluations.append(
            Evaluation(
                file,
                chosen,
                config.get('seed'),
                *_read(file),
                _sampling_of(file, config),
            )
        )
    # Arms pair their seeds by position, whatever the order of their runs.
    if any(evaluation.seed is None for evaluation in evaluations):
        return evaluations
    return sorted(evaluations, key=lambda evaluation: evaluation.seed or 0)


def check_alike(arms: Mapping[str, Sequence[Evaluation]]) -> None:
    """Checks that arms can be compared and their seeds paired.

    Args:
        arms: the evaluations of each arm, by its name.

    Raises:
        InputError: an evaluation or a seed of an arm occurs twice; the last
            evaluations of runs have different steps; a problem id stands for different
            problems; arms with as many runs have different seeds; or some of several
            runs have no known seed.
    """
    evaluations = [evaluation for of_arm in arms.values() for evaluation in of_arm]
    files = [evaluation.file.resolve() for evaluation in evaluations]
    if twice := sorted({str(file) for file in files if files.count(file) > 1}):
        raise InputError(f'{twice} would be compared with themselves: name a run once')
    steps = {
        str(evaluation.file): match[1]
        for evaluation in evaluations
        if evaluation.chosen and (match := _STEP.search(evaluation.file.name))
    }
    if len(set(steps.values())) > 1:
        raise InputError(
            f'{[*steps]} are of different steps: give --step, or name these files'
        )
    _check_same_problems(evaluations)
    _check_seeds(arms)


def _check_same_problems(evaluations: Iterable[Evaluation]) -> None:
    """Raises InputError if one problem id stands for different problems."""
    # A record may lack the category or the digest; compare those that have it.
    first_marks: dict[tuple[int, int], tuple[Any, pathlib.Path]] = {}
    for evaluation in evaluations:
        for problem, marks in evaluation.problems.items():
            for place, mark in enumerate(marks):
                if mark is None:
                    continue
                first, file = first_marks.setdefault(
                    (problem, place), (mark, evaluation.file)
                )
                if mark != first:
                    raise InputError(
                        f'{file} and {evaluation.file} have different problems, for '
                        f'example of number {problem}: compare evaluations of one test '
                        'set (a reward function, its threshold and its limits are '
                        'part of the problems of the task records)'
                    )


def _check_seeds(arms: Mapping[str, Sequence[Evaluation]]) -> None:
    seeds = {
        name: [evaluation.seed for evaluation in of_arm]
        for name, of_arm in arms.items()
    }
    for name, arm_seeds in seeds.items():
        stated = [seed for seed in arm_seeds if seed is not None]
        if twice := sorted({seed for seed in stated if stated.count(seed) > 1}):
            raise InputError(
                f'{name} has the seeds {arm_seeds}, and {twice} twice: runs of one '
                'seed are not independent, so name one of them'
            )
    (first, base), *other_arms = seeds.items()
    for name, arm_seeds in other_arms:
        if len(arm_seeds) != len(base) or len(arm_seeds) == 1:
            continue
        if None in arm_seeds + base and {*arm_seeds, *base} != {None}:
            raise InputError(
                f'{first} has the seeds {base} and {name} has {arm_seeds}, where None '
                'is a file outside of any run directory: runs are paired by seed, so '
                'name only run directories, or only files, in the order of their seeds'
            )
        if arm_seeds != base:
            raise InputError(
                f'{first} has the seeds {base} and {name} has {arm_seeds}: runs are '
                'paired by seed, so name the same ones'
            )


def _find(run: pathlib.Path, split: str, step: int | None) -> tuple[pathlib.Path, bool]:
    """Finds the file of an evaluation: ``run`` itself, or one in its directory."""
    if run.is_file():
        return run, False
    files = sorted((run / 'evaluation').glob(f'{glob.escape(split)}_step_*.jsonl'))
    if step is not None:
        files = [run / 'evaluation' / evaluation_name(split, step)]
    if not files or not files[-1].is_file():
        available = sorted(file.stem for file in run.glob('evaluation/*.jsonl'))
        if not available:
            config_file(run)
        steps = '' if step is None else f' of step {step}'
        raise InputError(
            f'{run} has no evaluation of split {split!r}{steps}; it has {available}'
        )
    return files[-1], True


def _config_of(file: pathlib.Path) -> Mapping[str, Any]:
    """Reads the config of the run whose ``evaluation/`` has the file, at any depth.

    Returns ``{}`` if there is none.
    """
    # The file may be a link out of a run or into one.
    folders = [*file.parents, *file.resolve().parents]
    homes = [folder.parent for folder in folders if folder.name == 'evaluation']
    for path in (home / 'config.json' for home in homes):
        if path.is_file():
            return _read_config(path)
    return {}


def _read_config(path: pathlib.Path) -> Mapping[str, Any]:
    """Reads a config; InputError if it is no JSON object, or its seed no number."""
    try:
        seed = (values := read_json(path)).get('seed')
    except (ValueError, AttributeError) as error:
        raise InputError(f'{path} cannot be read: {error}') from None
    if type(seed) not in (int, type(None)):
        raise InputError(f'{path} has {seed=}, which must be a whole number')
    return values


def _sampling_of(file: pathlib.Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of an evaluation: of its own settings, or of its run's."""
    limit = _section(config, 'sampling').get('max_response_tokens')
    settings = file.with_suffix('.json')
    if settings.is_file():
        values = _read_config(settings)
        config = values if 'eval' in values else config
        limit = values.get('max_response_tokens', limit)
    options = {'max_response_tokens': limit}
    options |= {x: _section(config, 'eval').get(x) for x in _OPTIONS}
    return {name: value for name, value in options.items() if value is not None}


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = config.get(name)
    return section if isinstance(section, Mapping) else {}


def differing_options(arms: Mapping[str, Sequence[Evaluation]]) -> list[str]:
    """Lists the options of sampling that differ, each with its values by arm.

    An evaluation whose option is unknown counts as one with the others' value.
    """
    differing = []
    for name in ('max_response_tokens', *_OPTIONS):
        values = {
            arm: list(
                dict.fromkeys(x.sampling[name] for x in of_arm if name in x.sampling)
            )
            for arm, of_arm in arms.items()
        }
        if len({value for of_arm in values.values() for value in of_arm}) > 1:
            by_arm = (
                f'{" and ".join(map(str, of_arm))} in {arm}'
                for arm, of_arm in values.items()
                if of_arm
            )
            differing.append(f'{name} is {", ".join(by_arm)}')
    return differing


def _read(
    file: pathlib.Path,
) -> tuple[dict[int, tuple[int, int]], dict[int, tuple[Any, Any]]]:
    counts: dict[int, tuple[int, int]] = {}
    problems = {}
    # splitlines() would also split at characters of a response, such as U+2028.
    text = file.read_text(encoding='utf-8', errors='replace')
    lines = [line for line in text.split('\n') if line]
    for number, line in enumerate(lines, 1):
        try:
            row = parse_json(line)
            problem, *pair = (row.get(name) for name in ('problem_id', 'n', 'c'))
        except (ValueError, AttributeError):
            raise InputError(f'{file}: record {number} cannot be read') from None
        if not all(type(value) is int for value in (problem, *pair)):
            raise InputError(f'{file}: record {number} has no whole problem_id, n, c')
        if not (0 <= pair[1] <= pair[0] and 1 <= pair[0] < 2**31):
            raise InputError(f'{file}: record {number} must have 0 <= c <= n, n >= 1')
        if problem in counts:
            raise InputError(f'{file}: record {number} has {problem=} a second time')
        counts[problem] = pair[0], pair[1]
        problems[problem] = row.get('category'), row.get('problem_digest')
    return counts, problems
