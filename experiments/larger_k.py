"""Why does a larger k learn more slowly: fewer problems with a signal, or more noise?

    python -m passk_jax.sweep --config=experiments/sweeps/larger_k_runs.py
    python -m experiments.larger_k --workdir=runs/larger_k_runs
    python -m experiments.larger_k

The paper (section ``sec:robustness``) finds that a larger k learns more slowly, and
lays it to smaller advantages. AdamW divides their scale out, so this looks at what is
left: the expected gradient and its noise at a fixed policy, for k = 1, 2, 4 and 8 on
the same responses (:mod:`passk_jax.diagnostics.gradients`).

With ``--workdir`` it measures: it takes the runs ``pass_at_1_seed*`` of that sweep, or
of ``rollouts.py``, at their first policy, after 50 steps if that checkpoint is there,
and at their last, samples batches of training problems that the run has not seen, and
appends a line to ``results/larger_k.jsonl`` for each policy. What is there is not
measured again. In any case it writes the tables of that file, ``larger_k.md``, of the
seeds with all three policies and of the others, and the figure of the first of these,
``larger_k.png``.

Expected, written before the first run and judged in experiments/pages/larger_k.md:

1. The larger k, the smaller is signal / noise, before RL and after.
2. The larger k, the fewer problems have an advantage that is not zero. After RL, when
   many problems have mostly right responses, this falls more than before.
3. Signal / noise falls by more than the number of these problems does.
4. For a step of one length the larger k raises pass@1 less, and pass@8 more.

The seeds 11 to 18 and the policy after 50 steps, where a larger k is behind already,
came later, when the seeds 0 to 4 had been seen. Expected of these eight:

5. After 50 steps fewer problems have an advantage with k = 8 than with k = 1, and for a
   step of one length k = 8 raises pass@1 less. Both differences are smaller than after
   RL.
6. The expected gradients of pass@1 and pass@8 have a positive cosine at all three
   policies (arXiv 2602.21189 says that they can be opposed), and a smaller one after RL
   than before.
"""

import collections
import functools
import itertools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging
from jax import numpy as jnp

from passk_jax import cli, sharding
from passk_jax.advantages import make_estimator
from passk_jax.diagnostics.gradients import gradient_products, signal_and_noise
from passk_jax.errors import InputError
from passk_jax.evaluation import metrics
from passk_jax.files import atomic_write_bytes, atomic_write_text, check_writable
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.models.policy import param_shapes
from passk_jax.report.arms import format_difference, markdown_table, mean_interval
from passk_jax.report.forest import Dots, Forest, draw_forests
from passk_jax.report.run_data import Row, read_lines
from passk_jax.runs.checkpoints import restore_params, saved_steps
from passk_jax.runs.saved_config import run_config
from passk_jax.sampling import Purpose
from passk_jax.setup.setup import Setup, make_setup

KS = (1, 2, 4, 8)
# Their expected gradients are those of pass@1 and of pass@8.
_FOLLOWS = (('rloo', {}), ('canonical_k', {'k': 8}))
# The steps of a policy; ``None``: those of the whole run.
POLICIES = {'before RL': 0, 'after 50 steps': 50, 'after RL': None}
_TITLES = {
    'problems': 'problems with an advantage',
    'snr': 'signal / noise',
    'pass_at_1': 'rise of pass@1 for a step of one length',
    'pass_at_8': 'rise of pass@8 for a step of one length',
}


def main(*, workdir: str = '', results: str = 'experiments/results') -> None:
    """Measures what is missing of the sweep in ``workdir``; writes table and figure."""
    path = pathlib.Path(results) / 'larger_k.jsonl'
    check_writable(path)
    rows = read_lines(path) if path.exists() else []
    if workdir:
        directories = sorted(pathlib.Path(workdir).glob('pass_at_1_seed*/'))
        if not directories:
            raise InputError(
                f'{workdir=} has no directory pass_at_1_seed*: run the sweep'
            )
        done = {(row['seed'], row['policy']) for row in rows}
        for directory, policy in itertools.product(directories, POLICIES):
            seed = run_config(directory).seed
            if (seed, policy) not in done and _has(directory, policy):
                rows.append(measure(directory, policy))
                lines = (json.dumps(row) + '\n' for row in rows)
                atomic_write_text(path, ''.join(lines))
                logging.info('seed %d, %s: measured', seed, policy)
    if not rows:
        raise InputError(f'{path} has no results: give --workdir')
    blocks = [tables(group) for group in groups(rows)]
    text = '\n\n'.join(blocks) + '\n'
    atomic_write_text(path.with_suffix('.md'), text)
    atomic_write_bytes(path.with_suffix('.png'), draw(groups(rows)[0]))
    print(text, end='')


def _has(directory: pathlib.Path, policy: str) -> bool:
    """Returns whether a run has this policy; InputError if it lacks its last one."""
    steps = run_config(directory).train.steps
    saved = saved_steps(directory / 'checkpoints')
    if steps not in saved:
        raise InputError(f'{directory} has no checkpoint {steps}: let the sweep finish')
    return policy == 'before RL' or (POLICIES[policy] or steps) in saved


def measure(
    directory: pathlib.Path, policy: str, *, batches: int = 40
) -> dict[str, Any]:
    """Measures a run at one of its policies; returns a line of means over batches.

    Args:
        directory: the run's directory.
        policy: one of ``POLICIES``.
        batches: the number of batches, which follow the run's last step.
    """
    config = run_config(directory)
    setup = make_setup(config)
    steps = POLICIES[policy]
    if steps == 0:
        params = setup.initial_params(directory)
    else:
        shapes, step = param_shapes(setup.policy, setup.mesh), config.train.steps
        params, _ = restore_params(directory, shapes, step=steps or step)
    compute, problems = _program(setup), setup.train_batches()
    sample = setup.sample()
    totals: dict[str, Any] = {}
    with jax.set_mesh(setup.mesh):
        for step in range(config.train.steps, config.train.steps + batches):
            key = setup.keys.key(Purpose.ROLLOUTS, step)
            sampled = sample(params, problems[step], key=key)
            correct = sample.verify(sampled, step=step).verdicts.correct
            placed = sharding.place(setup.mesh, correct)
            values = jax.device_get(compute(params, sampled.rollouts, placed))
            values = jax.tree.map(lambda x: np.asarray(x, np.float64), values)
            totals = jax.tree.map(np.add, totals, values) if totals else values
    return {
        'seed': config.seed,
        'policy': policy,
        'steps': config.train.steps if steps is None else steps,
        'num_rollouts': config.sampling.num_rollouts,
        'batches': batches,
        'num_chunks': _num_chunks(setup),
        **{name: (total / batches).tolist() for name, total in totals.items()},
    }


def _num_chunks(setup: Setup) -> int:
    train = setup.config.train
    return train.num_prompts // train.micro_batch_prompts


def _program(setup: Setup) -> Any:
    """Makes the jitted function of parameters, rollouts and ``correct [P, N]``."""
    config = setup.config
    N = config.sampling.num_rollouts
    loss = BatchLoss(setup.policy, config.sampling.temperature, config.loss)
    of_ks = [
        make_estimator('pass_at_k', num_rollouts=N, k=k)
        if k > 1
        else make_estimator('pass_at_1', num_rollouts=N)
        for k in KS
    ]
    follows = [
        make_estimator(name, num_rollouts=N, **parameters)
        for name, parameters in _FOLLOWS
    ]

    @functools.partial(jax.jit, out_shardings=sharding.replicated(setup.mesh))
    def compute(params: Any, rollouts: Any, correct: jax.Array) -> dict[str, jax.Array]:
        rewards = correct.astype(jnp.float32)
        advantages = jnp.stack([e(rewards, correct) for e in (*of_ks, *follows)])
        products = gradient_products(
            *(loss, params, rollouts, advantages), num_chunks=_num_chunks(setup)
        )
        # Rounding leaves small advantages if all responses are alike.
        weighed = (jnp.abs(advantages[: len(KS)]) > 1e-6).any(axis=-1)
        return {
            'correct': rewards.mean(),
            'problems': weighed.mean(axis=-1),
            'whole': products.total,
            'chunks': products.chunks,
        }

    return compute


def groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Groups the lines of seeds with the same policies, most policies first."""
    policies = collections.defaultdict(set)
    for row in rows:
        policies[row['seed']].add(row['policy'])
    kinds = {frozenset(names) for names in policies.values()}
    kinds = sorted(kinds, key=lambda kind: (-len(kind), sorted(kind)))
    return [[r for r in rows if policies[r['seed']] == kind] for kind in kinds]


def policies_of(rows: Sequence[Row]) -> list[str]:
    """Lists the policies that have lines, in order."""
    return [name for name in POLICIES if name in {row['policy'] for row in rows}]


def tables(rows: Sequence[Row]) -> str:
    """Returns a table for each policy, and the summary."""
    seeds = sorted({row['seed'] for row in rows})
    lines = [f'Seeds {", ".join(map(str, seeds))}:', '']
    for name in policies_of(rows):
        lines += table(name, of_policy(rows, name))
    return '\n'.join([*lines, *summary(rows)])


def of_policy(rows: Sequence[Row], policy: str) -> dict[str, np.ndarray]:
    """Computes the measures of a policy: name -> ``[S, K]``, by seed and k.

    ``snr`` is |E g|^2 / E|g - E g|^2 of a step's gradient g. ``pass_at_1`` and
    ``pass_at_8`` are <E g, h> / sqrt(E|g|^2), where h is the expected gradient of that
    objective: its rise for a step along g of a given length.

    Raises:
        InputError: there is no line of this policy.
    """
    rows = sorted((r for r in rows if r['policy'] == policy), key=lambda r: r['seed'])
    if not rows:
        raise InputError(f'there are no results of the policy {policy!r}')
    K = len(KS)
    columns: dict[str, list[Any]] = {name: [] for name in _TITLES}
    for row in rows:
        products = np.array(row['whole'])
        of = signal_and_noise(products, row['chunks'], num_chunks=row['num_chunks'])
        lengths = np.sqrt(np.diag(products)[:K])
        columns['problems'].append(row['problems'])
        columns['snr'].append(np.diag(of.products)[:K] / of.noise[:K])
        columns['pass_at_1'].append(of.products[:K, K] / lengths)
        columns['pass_at_8'].append(of.products[:K, K + 1] / lengths)
    return {name: np.array(values) for name, values in columns.items()}


def cosines_of(rows: Sequence[Row], policy: str) -> np.ndarray:
    """Returns the cosine of the expected gradients of pass@1 and pass@8, ``[S]``."""
    rows = sorted((r for r in rows if r['policy'] == policy), key=lambda r: r['seed'])
    products = [
        signal_and_noise(np.array(r['whole']), r['chunks'], num_chunks=r['num_chunks'])
        for r in rows
    ]
    return np.array([of.cosines[-2, -1] for of in products])


def summary(rows: Sequence[Row]) -> list[str]:
    """Returns a row for each policy: the figures of expectations 3, 5 and 6, k = 8."""
    last = [*POLICIES][-1]
    head = [
        'k = 8',
        'cosine of pass@1 and pass@8',
        'signal / noise minus problems',
        f'problems minus those {last}',
        f'rise of pass@1 minus that {last}',
    ]
    lost = {name: _lost(rows, name) for name in policies_of(rows)}
    lines = []
    for policy, of in lost.items():
        cosine = mean_interval(cosines_of(rows, policy))
        cells = [policy, format_difference(cosine, digits=2)]
        cells.append(_with_interval(of['snr'] - of['problems']))
        if policy != last and last in lost:
            for name in ('problems', 'pass_at_1'):
                cells.append(_with_interval(of[name] - lost[last][name]))
        else:
            cells += ['', '']
        lines.append(cells)
    return markdown_table(head, lines)


def _lost(rows: Sequence[Row], policy: str) -> dict[str, np.ndarray]:
    """Returns each measure's relative difference at the largest k, by seed."""
    columns = of_policy(rows, policy)
    return {name: relative(values)[:, -1] for name, values in columns.items()}


def table(policy: str, columns: Mapping[str, np.ndarray]) -> list[str]:
    """Returns a row for each k: means over seeds, and relative differences."""
    head = [policy, *_TITLES.values()]
    lines = []
    for i, k in enumerate(KS):
        # Products have an arbitrary unit: their means are left out.
        means = [
            f'{values[:, i].mean():.2g}' if 'pass' not in name else ''
            for name, values in columns.items()
        ]
        shares = [
            _with_interval(relative(x)[:, i]) if i else '' for x in columns.values()
        ]
        cells = map(
            ', '.join, (filter(None, x) for x in zip(means, shares, strict=True))
        )
        lines.append([f'k = {k}', *cells])
    return [*markdown_table(head, lines), '']


def relative(values: np.ndarray) -> np.ndarray:
    """Divides each seed's difference from k = 1 by the mean of k = 1; ``[S, K]``.

    A ratio for each seed would divide by a noisy number.
    """
    return (values - values[:, :1]) / values[:, 0].mean()


def _with_interval(of_seeds: np.ndarray) -> str:
    if len(of_seeds) < 2:
        return f'{of_seeds.mean():+.0%}'
    mean, low, high = metrics.paired_interval(of_seeds, np.zeros_like(of_seeds))
    return f'{mean:+.0%} [{low:+.0%}, {high:+.0%}]'


def draw(rows: Sequence[Row]) -> bytes:
    """Draws a panel for each measure, with a row for each policy and k > 1."""
    by_policy = {name: of_policy(rows, name) for name in policies_of(rows)}
    places = [*itertools.product(by_policy, range(1, len(KS)))]
    labels = [f'{policy}, k = {KS[i]}' for policy, i in places]
    forests = []
    for name, title in _TITLES.items():
        shares = [100 * relative(by_policy[policy][name])[:, i] for policy, i in places]
        dots = Dots([mean_interval(x) for x in shares])
        forests.append(
            Forest(title, 'difference (% of the mean of k = 1)', labels, [dots])
        )
    num_seeds = len({row['seed'] for row in rows})
    return draw_forests(
        forests,
        columns=2,
        title=f'Groups of k on the same responses, {num_seeds} seeds',
        below='minus Pass@1 Training (k = 1) with the same policy: '
        'mean and 95 % interval over seeds',
    )


if __name__ == '__main__':
    cli.run(main)
