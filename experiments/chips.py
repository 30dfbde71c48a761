"""Which published models fit which chips, in one table made by ``plan``.

    python -m experiments.chips

It plans configs/smollm2.py with each model on each topology, trained as a whole and by
adapters, in processes of their own (``python -m passk_jax.plan --fit``, of the programs
that need most), and writes experiments/plans/chips.md. It needs the TPU compiler
(``pip install -e '.[tpu]'``), no chip and no network; all plans take about two hours of
a core. They stay in the directory ``--workdir``: the same command makes only those that
are missing.
"""

import dataclasses
import datetime
import itertools
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence

from absl import logging

from passk_jax import cli
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.planning.table import render

PAGE = 'experiments/plans/chips.md'
MODELS = (
    'HuggingFaceTB/SmolLM2-135M-Instruct',
    'HuggingFaceTB/SmolLM2-360M-Instruct',
    'Qwen/Qwen2.5-0.5B-Instruct',
    'Qwen/Qwen2.5-1.5B-Instruct',
    'Qwen/Qwen2.5-3B-Instruct',
    'Qwen/Qwen2.5-7B-Instruct',
    'meta-llama/Llama-3.1-8B-Instruct',
)
CHIPS = {
    'v5e:1x1': 'v5e-1',
    'v5e:2x4': 'v5e-8',
    'v6e:1x1': 'v6e-1',
    'gpu:h100x1': 'H100',
    'gpu:l4x1': 'L4, 24 GB',
}
"""Topology -> its name in the table."""
KINDS = {
    'all': (),
    'adapters': (
        '--config.model.lora.rank=32',
        '--config.model.lora.alpha=64',
        '--config.model.lora.targets=all-linear',
        '--config.model.frozen_dtype=bfloat16',
    ),
}
"""What is trained -> the flags that say so."""
PROGRAMS = {'all': ('train',), 'adapters': ('train', 'decode')}
"""What is trained -> the programs that may need most; sampling copies the base."""
_FITS = 'These settings fit'
_PAGE = """# Which model on which chips

    python -m experiments.chips

Made on {today} from {versions}. Each cell is a plan of
[configs/smollm2.py](../../configs/smollm2.py) with `source=MODEL,on=chip`: AdamW in
float32, products in bfloat16, a step of 8 prompts of 128 tokens with 16 responses of
64. Full fine-tuning trains all parameters. Adapters of rank 32 on every matrix leave a
base in bfloat16 alone: `{adapters}`. No chip was used. [plans](README.md) explains
plans.

A cell has what a run needs of a device's memory, in GiB, and a time that no update can
beat at the chip's published peaks. A full update needs more than sampling does; under
adapters both are planned, and the larger counts. The time of decoding, evaluations and
compilation comes on top, and real updates take several times as long. For the GPUs,
which are planned from shapes alone, both are on the low side: for Qwen2.5-0.5B the same
estimate is 9.1 GiB, and the compiler of v5e takes 14.2.

{table}
{flags}
What does not fit would need fewer bytes a parameter: weights and AdamW in float32 hold
12, and a gradient takes 4 more. Under adapters the base has 2, and its copy for
sampling 2 more. No other setting changes that without changing what is trained; more
chips do ([plans](README.md)).
"""


@dataclasses.dataclass(frozen=True)
class Plan:
    """The figures of a program's plan.

    Attributes:
        needed, limit: GiB of a device.
        seconds: lower bound of the program; ``None`` if the model does not fit.
        lacking: GiB that a device lacks; 0 if the model fits.
        flags: those that ``--fit`` prints, without the configuration, the kind of
            training, and a mesh that uses all devices for ``fsdp``, the default.
    """

    needed: float
    limit: float
    seconds: float | None
    lacking: float
    flags: tuple[str, ...]


Key = tuple[str, str, str]
"""A model, its kind of training, and a topology."""


def main(*, workdir: str = 'runs/chips', markdown: str = PAGE) -> None:
    """Makes the plans that are missing, and the table."""
    directory = pathlib.Path(workdir)
    directory.mkdir(parents=True, exist_ok=True)
    plans, versions = {}, set()
    for key in itertools.product(MODELS, KINDS, CHIPS):
        parts: list[Plan] = []
        for program in PROGRAMS[key[1]]:
            flags = parts[-1].flags if parts else ()
            text = _text_of(key, program, flags, directory)
            parts.append(read(text))
            versions |= set(re.findall(r'^Made on \S+: (.*)\.$', text, re.MULTILINE))
            if parts[-1].lacking:
                break
        plans[key] = join(parts)
    page = _PAGE.format(
        today=datetime.datetime.now(datetime.UTC).date(),
        versions=' and '.join(sorted(versions)),
        adapters=' '.join(KINDS['adapters']),
        table=render(rows(plans)),
        flags='\n'.join(flag_lines(plans)),
    )
    atomic_write_text(markdown, page)


def _text_of(
    key: Key, program: str, flags: Sequence[str], directory: pathlib.Path
) -> str:
    """Returns a program's plan with these flags; makes it if it is missing."""
    model, kind, topology = key
    parts = [model.rpartition('/')[2], topology.replace(':', '_'), kind, program]
    path = directory / f'{"_".join(parts)}.md'
    if not path.is_file():
        logging.info('planning %s, %s, for %s: %s', *key, program)
        command = [
            *(sys.executable, '-m', 'passk_jax.plan', '--fit'),
            f'--config=configs/smollm2.py:source={model},on=chip',
            *KINDS[kind],
            *flags,
            *(f'--topology={topology}', f'--programs={program}'),
            f'--markdown={path}',
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        # Status 1: it does not fit, which the plan says.
        if not path.is_file():
            raise InputError(f'{" ".join(command)} failed:\n{done.stderr[-2000:]}')
    return path.read_text('utf-8')


def join(plans: Sequence[Plan]) -> Plan:
    """Joins the plans of the programs of a run.

    Each plan has the flags of the earlier ones. The first is that of an update. After
    a plan that does not fit, there are no others.
    """
    first, last = plans[0], plans[-1]
    if last.lacking:
        return last
    needed = max(plan.needed for plan in plans)
    return dataclasses.replace(first, needed=needed, flags=last.flags)


def read(text: str) -> Plan:
    """Reads a plan of one program.

    Raises:
        InputError: the text is not a finished plan of ``--fit``.
    """
    needed, limit = _cell(text, 'total'), _cell(text, 'limit')
    *_, sentence, _, settings = text.rstrip('\n').splitlines()
    # The row counts no temporaries of a program that was not compiled.
    over = re.search(r'needs (\S+) GiB, (\S+) GiB more than', sentence)
    if not over and not sentence.startswith(_FITS):
        raise InputError(f'{sentence!r} is not the end of a plan by --fit')
    devices = re.search(r'^\S+ (\d+) chips, mesh', text, re.MULTILINE)
    fixed = {f'--config.mesh.fsdp={devices[1] if devices else ""}'}
    fixed |= set(itertools.chain(*KINDS.values()))
    flags = [x for x in settings.split() if not x.startswith('--config=')]
    return Plan(
        float(over[1]) if over else needed,
        limit,
        None if over else _cell(text, 'time, at least'),
        float(over[2]) if over else 0.0,
        tuple(flag for flag in flags if flag not in fixed),
    )


def _cell(text: str, label: str) -> float:
    """Reads the figure of a row of a plan's table, in GiB or seconds."""
    units = {
        'GiB': 1.0,
        'MiB': 2**-10,
        'KiB': 2**-20,
        'B': 2**-30,
        's': 1.0,
        'ms': 1e-3,
    }
    for line in text.splitlines():
        if line.startswith(f'| {label} '):
            number, unit = line.strip('| ').split('|')[1].split()
            return float(number) * units[unit]
    raise InputError(f'there is no row {label!r} in the plan')


def rows(plans: dict[Key, Plan]) -> Sequence[Sequence[str]]:
    """Makes the table: a row for each model and kind, a column for each topology."""
    table = [['model', 'trained', *CHIPS.values()]]
    for model, kind in itertools.product(MODELS, KINDS):
        cells = (_format_plan(plans[model, kind, topology]) for topology in CHIPS)
        table.append([_short(model), kind, *cells])
    return table


def _short(model: str) -> str:
    return model.rpartition('/')[2].removesuffix('-Instruct')


def _format_plan(plan: Plan) -> str:
    if plan.seconds is None:
        return f'no: lacks {plan.lacking:.1f} of {plan.needed:.1f}'
    note = ', with flags' if plan.flags else ''
    return f'{plan.needed:.1f} of {plan.limit:.1f}, {plan.seconds:.2g} s{note}'


def flag_lines(plans: dict[Key, Plan]) -> list[str]:
    """Lists the flags of each model that fits only with flags."""
    lines = [
        f'- {_short(model)}, {kind}, on {CHIPS[topology]}: `{" ".join(plan.flags)}`'
        for (model, kind, topology), plan in plans.items()
        if plan.flags and plan.seconds is not None
    ]
    return ['The flags:', '', *lines, ''] if lines else []


if __name__ == '__main__':
    cli.run(main)
