"""Compiles the learner's step of this library and of its peers for one topology.

    python -m benchmarks.topology

It needs the TPU compiler (the extra 'tpu') but no TPU, and runs nothing. The model has
the shape of Qwen2.5-7B with fewer layers; float32 weights and AdamW, products in
bfloat16, fsdp over all chips. Both sides make one update of the same prompts and
responses, all of full length, with a pass large enough for all (packed rows may make
more). Both recompute whole layers, as our defaults and tunix's examples do.

* ``passk_jax`` has the defaults of ``configs/enigmata.py``: packed rows, and a compiler
  option of the chip. ``passk_jax, plain`` has a row a response and no such option.
* ``tunix`` is google-tunix's GRPO learner (topology_tunix.py), in an environment of its
  own. It repeats each prompt for its responses.

planning/analysis.py reads every compiled program, a peer's too. CPU seconds are those
of tracing, compiling and reading, in a process for each side.
"""

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from benchmarks import environments, sides, worker
from passk_jax.errors import InputError
from passk_jax.planning import table, topologies
from passk_jax.planning.analysis import Analysis, analyse
from passk_jax.planning.chips import GIB
from passk_jax.planning.programs import Program

SIDES: Mapping[str, tuple[str, bool]] = {
    'passk_jax': ('topology_ours', False),
    'passk_jax, plain': ('topology_ours', True),
    'tunix': ('topology_tunix', True),
}
"""Name -> module, and :attr:`Job.plain`, which tunix ignores."""


@dataclasses.dataclass(frozen=True)
class Job:
    """The work of all sides.

    Attributes:
        topology: the name of the chips; fsdp has all of them.
        layers: of the model.
        prompts, rollouts: prompts of an update, and responses to each.
        prompt_tokens, response_tokens: of every prompt and response.
        plain: for our side: one row per response, and the compiler's default options.

    Raises:
        InputError: there is no such topology, or the chips do not divide the prompts.
    """

    topology: str
    layers: int
    prompts: int
    rollouts: int
    prompt_tokens: int
    response_tokens: int
    plain: bool = False

    def __post_init__(self):
        if self.prompts % self.num_devices:
            raise InputError(
                f'prompts={self.prompts} must be a multiple of the {self.num_devices} '
                f'devices of {self.topology}'
            )

    @property
    def num_devices(self) -> int:
        """Devices of the topology."""
        return topologies.parse(self.topology).num_devices

    @property
    def num_tokens(self) -> int:
        """Response tokens of an update."""
        return self.prompts * self.rollouts * self.response_tokens


def serve(make: Callable[[Job], Program]) -> None:
    """Runs a side: makes its program, and compiles it on request; see worker.py.

    The command line has the job as JSON.
    """
    job = Job(**json.loads(sys.argv[1]))
    program = make(job)
    for report in worker.repetitions({'jax': jax.__version__}):
        report |= figures(analyse(program, topologies.parse(job.topology)))


def figures(analysis: Analysis) -> dict[str, Any]:
    """Returns the figures of a compiled program on one device, as JSON values.

    Those of traffic are missing if the program needs more memory than there is.
    """
    memory, costs = analysis.memory, analysis.costs
    record: dict[str, Any] = {
        'flops': analysis.flops,
        'arguments': memory.arguments,
        'temporaries': memory.temporaries,
        'limit': memory.limit,
    }
    if costs is not None:
        record['traffic'] = costs.memory
        record['unknown_loops'] = costs.unknown_loops
        record['collectives'] = {
            kind: [x.count, x.size] for kind, x in costs.collectives.items()
        }
    return record


def rows(measured: Mapping[str, Mapping[str, Any]], job: Job) -> list[list[str]]:
    """Makes the rows of the table: a column per side, with figures of one chip."""
    kinds = sorted(
        {kind for x in measured.values() for kind in x.get('collectives', ())}
    )
    columns = [_column(x, job, kinds) for x in measured.values()]
    labels = columns[0]
    return [
        ['a chip', *measured],
        *([x, *(column[x] for column in columns)] for x in labels),
    ]


def _column(
    measured: Mapping[str, Any], job: Job, kinds: Sequence[str]
) -> dict[str, str]:
    per_token = measured['flops'] * job.num_devices / job.num_tokens
    traffic, collectives = measured.get('traffic'), measured.get('collectives', {})
    return {
        'FLOP': table.decimal(measured['flops']),
        'FLOP a response token': table.decimal(per_token),
        'arguments': f'{measured["arguments"] / GIB:.2f} GiB',
        'temporaries': f'{measured["temporaries"] / GIB:.2f} GiB',
        'memory traffic': '-' if traffic is None else f'{table.decimal(traffic)}B',
        **{kind: _collective(collectives.get(kind)) for kind in kinds},
        'CPU seconds to compile': f'{measured["cpu"]:.0f}',
    }


def _collective(traffic: Sequence[float] | None) -> str:
    if traffic is None:
        return '-'
    count, size = traffic
    return f'{count:,.0f} x, {table.decimal(size)}B'


def measure(name: str, job: Job, python: str) -> dict[str, Any]:
    """Compiles a side's program in a process of its own; returns its figures.

    Raises:
        InputError: the TPU compiler is not installed.
    """
    compiler = importlib.util.find_spec('libtpu')
    if compiler is None or not compiler.submodule_search_locations:
        raise InputError(
            f'{job.topology}: the TPU compiler is not installed here. It needs no TPU; '
            "install it with: pip install -e '.[tpu]'"
        )
    module, plain = SIDES[name]
    job = dataclasses.replace(job, plain=plain)
    with tempfile.TemporaryDirectory() as directory:
        # The compiler alone, without the other packages beside it.
        link = pathlib.Path(directory) / 'libtpu'
        link.symlink_to(compiler.submodule_search_locations[0])
        side = sides.Side(
            name,
            f'benchmarks.{module}',
            json.dumps(dataclasses.asdict(job)),
            python=python,
            environment={
                'PYTHONPATH': os.pathsep.join([str(sides.ROOT), directory]),
                'JAX_PLATFORMS': 'cpu',
            },
        )
        with sides.started([side], core=-1):
            return side.run()


def _versions() -> str:
    peers = ', '.join(environments.REQUIREMENTS['tunix'])
    return f'libtpu {importlib.metadata.version("libtpu")}; tunix: {peers}'


def main() -> None:
    """Reads the command line, compiles and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--topology', default='v5p:4x4x4', help='of TPUs')
    parser.add_argument('--layers', type=int, default=2)
    parser.add_argument('--prompts', type=int, default=64)
    parser.add_argument('--rollouts', type=int, default=8, help='responses a prompt')
    parser.add_argument('--prompt_tokens', type=int, default=1024)
    parser.add_argument('--response_tokens', type=int, default=1024)
    parser.add_argument('--sides', nargs='*', default=[*SIDES], choices=[*SIDES])
    parser.add_argument('--python', default='', help='interpreter with google-tunix')
    args = parser.parse_args()
    job = Job(
        args.topology,
        args.layers,
        args.prompts,
        args.rollouts,
        args.prompt_tokens,
        args.response_tokens,
    )
    measured = {}
    for name in args.sides:
        peers = name == 'tunix'
        python = environments.python_of(name, args.python) if peers else sys.executable
        measured[name] = measure(name, job, python)
        print(f'{name}: {measured[name]["cpu"]:.0f} CPU s', file=sys.stderr, flush=True)
    print(f'{job}\njax {jax.__version__}, {_versions()}\n')
    print(table.render(rows(measured, job)))


if __name__ == '__main__':
    main()
