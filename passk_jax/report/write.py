"""Writes curves.png and report.html of a run, from its directory alone.

``run_data`` reads the run, ``panels`` selects what to plot, ``charts`` draws it and
``page`` writes HTML; this module calls them in order. It may write at any time, during
the run or after it, and replaces each file atomically.
"""

import itertools
import json
import math
import os
import pathlib
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from absl import logging

from passk_jax.advantages import estimator_parameters
from passk_jax.errors import InputError, prefixed, with_class
from passk_jax.files import atomic_write_bytes
from passk_jax.initial.params import EXAMPLES_NAME
from passk_jax.report import charts as report_charts
from passk_jax.report import page as report_page
from passk_jax.report import panels as report_panels
from passk_jax.report.diagnostic_panels import flip_panels, step_panels
from passk_jax.report.run_data import Row, Run, measure_categories, read_lines, read_run
from passk_jax.report.thinning import MEAN_OF
from passk_jax.report.timing_panels import (
    LEAST_SHARE,
    phase_shares,
    steady,
    timing_panels,
)

_PROBLEMS_LAST, _PROBLEMS_FIRST, _RESPONSES = 6, 3, 6
_OF_STEPS = (
    'Entropy is shown at positions that at least 1 % of the responses reach. Parted '
    'responses are pairs of different wrong responses to a problem: the curve is the '
    'share of pairs whose first difference is at or before a position. The sum of '
    'absolute advantages |Â| by accuracy is the weight that problems get, not a norm '
    'of gradients; centered advantages weigh right and wrong responses the same. With '
    'log.difficulty_bins, another panel has the share of the expected gradient, which '
    'is negative where problems pull against the whole. Signal is the squared length '
    'of the expected gradient, and noise the variance of a step’s gradient, for each '
    'estimator on the same responses: rloo follows pass@1 exactly, and canonical_k '
    'pass@k. Both are summed over the last ten diagnosed steps of a stage, or the last '
    'fifth if that is more; the estimate of a weak signal may be negative. The bands '
    'of cosines are standard errors; estimates above 1 are drawn at 1.'
)
_OF_FLIPS = (
    'A problem is solved if any of its n responses is right. A problem that is solved '
    'by chance can flip although the policy stays the same.'
)
_OF_TIME = (
    'The first step of each process, which compiles, and evaluations are not counted. '
    'Bars are cut off at twice the 90th percentile of their heights.'
)
_OF_MFU = (
    'MFU is model FLOPs utilization: the FLOPs that decoding and training need at the '
    'lengths of this step, without recomputation and padding, as a share of the '
    'published bfloat16 peak of all chips.'
)


def write_curves(workdir: str | os.PathLike[str] | Run) -> pathlib.Path:
    """Writes ``curves.png``, the panels of the run's metrics, and returns its path.

    Args:
        workdir: the run directory, or the run that was read from it.

    Raises:
        InputError: the directory does not exist or cannot be written.
    """
    run = workdir if isinstance(workdir, Run) else read_run(workdir)
    panels = report_panels.metric_panels(run)
    image = report_charts.draw_figure(panels, title=_title(run))
    return _write(run.path / 'curves.png', image)


def write_report(workdir: str | os.PathLike[str] | Run) -> pathlib.Path:
    """Writes ``report.html``, which needs no other file, and returns its path.

    A section that cannot be made, for example from a damaged file, shows the error and
    logs a warning.

    Args:
        workdir: the run directory, or the run that was read from it.

    Raises:
        InputError: the directory does not exist or cannot be written.
    """
    run = workdir if isinstance(workdir, Run) else read_run(workdir)
    parts = {
        'head': _head,
        'results': _results,
        'curves': _curves,
        'diagnostics': _diagnostics,
        'advantage': _advantages,
        'time': _time,
        'demonstrations': _demonstrations,
        'responses': _responses,
        'config': _config,
    }
    sections = [_section(run, name, make) for name, make in parts.items()]
    html = report_page.page(_title(run), '\n'.join(s for s in sections if s))
    # A response may contain half of a surrogate pair.
    content = html.encode('utf-8', 'replace')
    return _write(run.path / 'report.html', content)


def _section(run: Run, name: str, make: Callable[[Run], str]) -> str:
    try:
        return make(run)
    except Exception as error:
        message = f'no {name}: {with_class(error)}'
        logging.warning('%s: %s', run.path / 'report.html', message)
        return f'<div class="card empty">{escape(message)}</div>'


def _write(path: pathlib.Path, content: bytes) -> pathlib.Path:
    with prefixed(f'cannot write {path}', OSError):
        atomic_write_bytes(path, content)
    return path


def _title(run: Run) -> str:
    return ', '.join([_name(run), *(estimator for _, estimator in _estimators(run))])


def _estimators(run: Run) -> list[tuple[int, str]]:
    """Returns (first step, estimator) for each change of the estimator."""
    sections = [(start, x) for start, x in run.advantages() if 'name' in x]
    estimators = [(start, _describe_estimator(x)) for start, x in sections]
    changes = itertools.groupby(estimators, key=lambda x: x[1])
    return [next(equal) for _, equal in changes]


def _describe_estimator(advantage: Mapping[str, Any]) -> str:
    """Returns the estimator's name, with k if it has one.

    >>> _describe_estimator({'name': 'pass_at_k', 'k': 8})
    'pass_at_k (k = 8)'
    >>> _describe_estimator({'name': 'rloo', 'k': 8})
    'rloo'
    """
    name, k = str(advantage['name']), advantage.get('k')
    try:
        has_k = 'k' in estimator_parameters(name)
    except InputError:
        has_k = True
    return f'{name} (k = {k})' if k and has_k else name


def _name(run: Run) -> str:
    return str(run.option('name') or run.path.absolute().name)


def _head(run: Run) -> str:
    done = run.train[-1]['step'] + 1 if run.train else 0
    steps = run.option('train.steps')
    facts = {
        'task': run.option('task.name'),
        'estimator': _since(_estimators(run)),
        'rollouts N': run.option('sampling.num_rollouts'),
        'prompts a step': run.option('train.num_prompts'),
        'learning rate': run.option('optimizer.learning_rate'),
        'init': run.option('init.kind'),
        'seed': run.option('seed'),
        'steps': f'{done} of {steps}' if steps else done,
        'training time': _training_time(run),
        'of which': _phases(run),
        'code': _revision(run),
    }
    chips = report_page.chips({k: v for k, v in facts.items() if v is not None})
    lead = f'<p class="lead">{escape(str(run.path.absolute()))}</p>'
    return f'<h1>{escape(_name(run))}</h1>{lead}{chips}'


def _since(estimators: list[tuple[int, str]]) -> str | None:
    """Formats estimators, for example ``pass_at_k (k = 4), rloo from step 100``."""
    texts = [
        f'{name} from step {start}' if start else name for start, name in estimators
    ]
    return ', '.join(texts) or None


def _training_time(run: Run) -> str | None:
    rows = [row for row in run.timing if 'seconds' in row]
    if not rows:
        return None
    seconds = math.fsum(row['seconds'] * row.get(MEAN_OF, 1) for row in rows)
    words = [f'{seconds / 60:.1f} min']
    formats = (
        ('tokens_per_second', 1, ',.0f', 'tokens/s'),
        ('mfu', 100, '.1f', '% MFU'),
    )
    for name, times, form, unit in formats:
        rates = sorted(row[name] for row in run.timing if name in row)
        words += [f'{times * rates[len(rates) // 2]:{form}} {unit}'] if rates else []
    return ', '.join(words)


def _phases(run: Run) -> str | None:
    """Formats the phases' shares of the time, for example ``update 52 %, decode 41 %``.

    Omits phases below LEAST_SHARE, and the first step of each process, which compiles.
    """
    shares = phase_shares(steady(run.timing))
    largest = sorted(shares.items(), key=lambda pair: -pair[1])
    phrases = (f'{x} {100 * y:.0f} %' for x, y in largest if y >= LEAST_SHARE)
    return ', '.join(phrases) or None


def _revision(run: Run) -> str | None:
    revision = run.git.get('revision')
    if not revision:
        return None
    return str(revision)[:10] + (', with changes' if run.git.get('dirty') else '')


def _results(run: Run) -> str:
    if not run.evaluations:
        return '<h2>Results</h2><div class="card empty">no evaluation yet</div>'
    parts = ['<h2>Results</h2>']
    for split, rows in run.evaluations.items():
        count = rows[-1].get('num_problems')
        size = f' ({count:.0f} problems)' if isinstance(count, int | float) else ''
        ends = rows[:1] + rows[1:][-1:]
        ends = [row | measure_categories(run, split, row['step']) for row in ends]
        parts.append(f'<h3>{escape(split)}{size}</h3>{report_page.results_table(ends)}')
    parts.append(
        '<p class="lead">Unbiased pass@k. Small print: the 95 % bootstrap interval '
        'over problems; the first evaluation, and the change since then.</p>'
    )
    return ''.join(parts)


def _curves(run: Run) -> str:
    charts = ''.join(map(report_charts.svg_chart, report_panels.metric_panels(run)))
    return (
        f'<h2>Curves</h2><div class="grid">{charts}</div><p class="lead">Distinct of '
        '4 wrong answers is a mean over problems with at least 4 wrong responses. The '
        'paper’s measure, answer_diversity in metrics.jsonl, is distinct wrong answers '
        'over all wrong ones. It rises with accuracy even if the kinds of wrong answer '
        'stay the same.</p>'
    )


def _diagnostics(run: Run) -> str:
    of_steps, of_flips = step_panels(run), flip_panels(run)
    if not of_steps + of_flips:
        return ''
    panels = report_panels.with_borders(run, of_steps + of_flips)
    charts = ''.join(map(report_charts.svg_chart, panels))
    texts = (_OF_STEPS if of_steps else '', _OF_FLIPS if of_flips else '')
    readings = ''.join(f'<p class="lead">{escape(text)}</p>' for text in texts if text)
    return f'<h2>Diagnostics</h2><div class="grid">{charts}</div>{readings}'


def _time(run: Run) -> str:
    panels = report_panels.with_borders(run, timing_panels(run))
    if not panels:
        return ''
    charts = ''.join(map(report_charts.svg_chart, panels))
    texts = (_OF_TIME, _OF_MFU if any('mfu' in row for row in run.timing) else '')
    reading = f'<p class="lead">{escape(" ".join(filter(None, texts)))}</p>'
    return f'<h2>Time</h2><div class="grid">{charts}</div>{reading}'


def _advantages(run: Run) -> str:
    """Shows the curve of each estimator in use, once."""
    parts, seen = [], []
    for start, section in run.advantages():
        curve = report_panels.curve_in_use(run, section)
        if curve is not None and curve not in seen:
            seen.append(curve)
            parts.append(_advantage(curve, f', from step {start} on' if start else ''))
    return ''.join(parts)


def _advantage(curve: Mapping[str, Any], since: str) -> str:
    panels = report_panels.advantage_panels(curve)
    charts = ''.join(map(report_charts.svg_chart, panels))
    height, at = max(zip(curve['eta'], curve['accuracy'], strict=True))
    reading = (
        'The first chart shows the advantages of right and wrong responses to a '
        'problem, by the share of its responses that are right.',
        'η = N₊ |Â₊| + N₋ |Â₋| is the total weight of such a problem. '
        f'It is largest at accuracy {at:.3g}: {height:.3g}.',
        'ω(p) is the expected gap Â₊ − Â₋ between a right and a wrong response. On '
        'policy, the expected gradient is ω(p) times the gradient of p, so two '
        'estimators need the same learning rate where their ω agree. Where p is 0 it '
        f'is {curve["weight"][0]:.3g}.',
        curve.get('note', ''),
    )
    texts = ''.join(f'<p>{escape(text)}</p>' for text in reading if text)
    return (
        f'<h2>Advantage in use{since}</h2><div class="grid">{charts}'
        f'<div class="card">{texts}</div></div>'
    )


def _demonstrations(run: Run) -> str:
    """Shows the first examples of the warm start."""
    rows = read_lines(run.path / 'warm_start' / EXAMPLES_NAME)
    cards = ''.join(
        f'<div class="card problem"><pre>{escape(str(row.get("prompt", "")))}'
        f'<b>{escape(str(row.get("demonstration", "")))}</b></pre></div>'
        for row in rows
    )
    return f'<h2>What the warm start showed</h2>{cards}' if cards else ''


def _responses(run: Run) -> str:
    if not run.dumps:
        return '<h2>Responses</h2><div class="card empty">no rollouts yet</div>'
    steps, parts = list(run.dumps), ['<h2>Responses</h2>']
    dumps = (steps[-1], _PROBLEMS_LAST), (steps[0], _PROBLEMS_FIRST)
    for step, most in dumps[: len(steps)]:
        parts.append(f'<h3>Sampled at step {step}</h3>')
        for responses in _interesting(read_lines(run.dumps[step]))[:most]:
            parts.append(report_page.problem_card(run, responses, most=_RESPONSES))
    return ''.join(parts)


def _interesting(rows: list[Row]) -> list[list[Row]]:
    """Groups rollouts by problem; problems with right and wrong ones come first."""
    problems: dict[Any, list[Row]] = {}
    for row in rows:
        problems.setdefault(row.get('problem_id'), []).append(row)
    return sorted(
        problems.values(),
        key=lambda group: len({bool(row.get('correct')) for row in group}) == 1,
    )


def _config(run: Run) -> str:
    if not run.config:
        return ''
    text = escape(json.dumps(run.config, indent=2))
    return (
        '<h2>Config</h2><details class="card"><summary>as resolved</summary>'
        f'<pre>{text}</pre></details>'
    )
