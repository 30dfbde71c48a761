"""One program against one topology: memory, work, and the time that no run can beat.

:func:`analyse` traces, compiles and counts. Memory is what the compiler allots on a
device, beside what is resident there anyhow. The bound on the time is the roofline's:
the longest of products at the chip's peak, of memory traffic at its bandwidth, and of
what the chip must receive at the bandwidth of all its links together. It takes the
three to overlap perfectly and nothing else to cost anything.
"""

import dataclasses
import re

import jax
from absl import logging

from passk_jax.planning import hlo_costs
from passk_jax.planning.chips import Chip
from passk_jax.planning.flops import Flops, program_flops
from passk_jax.planning.hlo_costs import Costs
from passk_jax.planning.programs import Program, shard_bytes
from passk_jax.planning.topologies import Topology

_UNITS = {'': 1, 'K': 2**10, 'M': 2**20, 'G': 2**30, 'T': 2**40}
_AMOUNT = r'([\d.]+)([KMGT]?)'


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes on a device.

    Attributes:
        arguments: of the program's arguments, used or not.
        outputs: of its results, but for those that overwrite an argument; ``None``
            where nothing was compiled.
        temporaries: allotted besides; ``None`` likewise.
        resident: of what else is there while it runs.
        limit: what a program can have; 0: not known.
    """

    arguments: float
    outputs: float | None
    temporaries: float | None
    resident: float
    limit: float

    @property
    def total(self) -> float:
        """All that is known of."""
        made = (self.outputs or 0.0) + (self.temporaries or 0.0)
        return self.arguments + made + self.resident

    @property
    def fits(self) -> bool:
        """Whether that is within the limit, or there is none."""
        return not self.limit or self.total <= self.limit


@dataclasses.dataclass(frozen=True)
class Analysis:
    """A program, and what is known of it.

    Attributes:
        program: the program.
        topology: what it was compiled for.
        memory: of a device.
        traced: FLOPs of the program as written, over all devices.
        costs: of the compiled program, a device; ``None`` if there is none: no
            compiler, or more memory than it would compile for.
    """

    program: Program
    topology: Topology
    memory: Memory
    traced: Flops
    costs: Costs | None

    @property
    def flops(self) -> float:
        """FLOPs of a device: as compiled, else its share of the program's."""
        count = self.topology.num_chips
        if self.costs is None:
            return self.traced.total / count
        return self.costs.flops + self.traced.kernels / count

    @property
    def useful_share(self) -> float:
        """Useful FLOPs as a share of those that all devices do."""
        done = self.flops * self.topology.num_chips
        return self.program.useful_flops / done if done else 0.0

    @property
    def seconds(self) -> dict[str, float]:
        """Least time for each of the three; of those for which there are figures."""
        chip: Chip = self.topology.chip
        # Every argument is read, if nothing else is known of the traffic.
        traffic = self.memory.arguments if self.costs is None else self.costs.memory
        amounts = {
            'compute': (self.flops, chip.flops),
            'memory': (traffic, chip.memory_bandwidth),
        }
        if self.costs is not None:
            amounts['network'] = (self.costs.network, chip.link_bandwidth)
        return {name: n / peak for name, (n, peak) in amounts.items() if peak}

    @property
    def bound(self) -> float | None:
        """Seconds that one run takes at least; ``None`` without any peak."""
        return max(self.seconds.values(), default=None)

    @property
    def utilisation_bound(self) -> float | None:
        """Share of the chips' peak that useful FLOPs can have (MFU), at most."""
        if not self.bound:
            return None
        peak = self.topology.chip.flops * self.topology.num_chips
        return self.program.useful_flops / (self.bound * peak)


def analyse(program: Program, topology: Topology) -> Analysis:
    """Traces a program, compiles it if there is a compiler, and counts."""
    # The mesh without its devices: what is made on the way, such as a kernel's tables,
    # is made here.
    with jax.sharding.use_abstract_mesh(program.mesh.abstract_mesh):
        return _analyse(program, topology)


def _analyse(program: Program, topology: Topology) -> Analysis:
    traced = program.function.trace(*program.arguments)
    flops = program_flops(traced.jaxpr)
    arguments = shard_bytes(program.arguments)
    limit, outputs, temporaries, costs = topology.chip.memory, None, None, None
    if topology.has_compiler:
        logging.info('compiling %s for %s', program.name, topology.name)
        try:
            compiled = traced.lower().compile()
        except jax.errors.JaxRuntimeError as error:
            needed = overflow(str(error), arguments=arguments)
            if needed is None:
                raise
            temporaries, limit = needed
        else:
            sizes = compiled.memory_analysis()
            # The compiled program drops what it does not use; that is there still.
            arguments = max(arguments, float(sizes.argument_size_in_bytes))
            outputs = float(sizes.output_size_in_bytes - sizes.alias_size_in_bytes)
            temporaries = float(sizes.temp_size_in_bytes)
            text = compiled.as_text()
            costs = hlo_costs.count(text, num_devices=topology.num_chips)
    memory = Memory(arguments, outputs, temporaries, program.resident, limit)
    return Analysis(program, topology, memory, flops, costs)


def overflow(message: str, *, arguments: float) -> tuple[float, float] | None:
    """Reads a compiler's refusal for want of memory.

    Args:
        message: of the refusal.
        arguments: bytes of the program's arguments, which some messages count in.

    Returns:
        Bytes of the temporaries and of the limit; ``None``: it is another refusal.
    """
    if 'RESOURCE_EXHAUSTED' not in message:
        return None
    if apart := re.search(rf'temporaries \({_AMOUNT}\) exc.*?\({_AMOUNT}\)', message):
        return _bytes(*apart.groups()[:2]), _bytes(*apart.groups()[2:])
    if whole := re.search(rf'Used {_AMOUNT} of {_AMOUNT} hbm', message):
        used, limit = _bytes(*whole.groups()[:2]), _bytes(*whole.groups()[2:])
        return used - arguments, limit
    return None


def _bytes(number: str, unit: str) -> float:
    return float(number) * _UNITS[unit]
