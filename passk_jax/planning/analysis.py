"""Analyses one program on one topology: memory, work, and a lower bound on its time.

:func:`analyse` traces, compiles and counts. Memory is what the compiler allocates on a
device, plus what stays there while the program runs. The bound is the roofline: the
longest of three times, for matrix products at the chip's peak, memory traffic at its
bandwidth, and received bytes at the bandwidth of its links. It assumes that the three
overlap perfectly and nothing else takes time.
"""

import dataclasses
import re

import jax

from passk_jax.planning import hlo_costs, links
from passk_jax.planning.builder import shard_bytes
from passk_jax.planning.flops import Flops, program_flops
from passk_jax.planning.hlo_costs import Costs
from passk_jax.planning.links import Place
from passk_jax.planning.programs import Program
from passk_jax.planning.topologies import Topology

_UNITS = {'': 1, 'K': 2**10, 'M': 2**20, 'G': 2**30, 'T': 2**40}
_AMOUNT = r'([\d.]+)([KMGT]?)'


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes on a device.

    Attributes:
        arguments: the program's arguments, used or not.
        outputs: its results, except those that overwrite an argument.
        temporaries: memory that it allocates while it runs. This and ``outputs`` are
            ``None`` if nothing was compiled.
        resident: everything else on the device while it runs.
        limit: the most that a program may use; 0: unknown.
    """

    arguments: float
    outputs: float | None
    temporaries: float | None
    resident: float
    limit: float

    @property
    def total(self) -> float:
        """The sum of the known parts."""
        new_bytes = (self.outputs or 0.0) + (self.temporaries or 0.0)
        return self.arguments + new_bytes + self.resident

    @property
    def fits(self) -> bool:
        """Whether the total is within the limit; true without one."""
        return not self.limit or self.total <= self.limit


@dataclasses.dataclass(frozen=True)
class Analysis:
    """The figures of a program.

    Attributes:
        program, topology: the program, and the devices it was compiled for.
        memory: bytes on a device.
        traced: FLOPs of the program as written, over all devices.
        costs: costs of the compiled program on a device; ``None`` without a compiler,
            or if the compiler ran out of device memory.
        places: places of the devices on a torus; see links.py.
    """

    program: Program
    topology: Topology
    memory: Memory
    traced: Flops
    costs: Costs | None
    places: tuple[Place, ...] = ()

    @property
    def flops(self) -> float:
        """FLOPs on a device: as compiled, else its share of the program as written."""
        traced = self.traced.total if self.costs is None else self.traced.kernels
        compiled = 0.0 if self.costs is None else self.costs.flops
        return compiled + traced / self.topology.num_devices

    @property
    def useful_share(self) -> float | None:
        """Useful FLOPs as a share of all FLOPs; ``None`` if there are none."""
        done = self.flops * self.topology.num_devices
        return self.program.useful_flops / done if done else None

    @property
    def seconds(self) -> dict[str, float]:
        """Lower bounds from compute, memory and network, as far as known."""
        chip, costs, seconds = self.topology.chip, self.costs, {}
        if chip.flops:
            seconds['compute'] = self.flops / chip.flops
        if chip.memory_bandwidth:
            # A program reads at least its arguments.
            traffic = self.memory.arguments if costs is None else costs.memory
            seconds['memory'] = traffic / chip.memory_bandwidth
        if chip.link_bandwidth and costs is not None:
            seconds['network'] = links.seconds(
                costs.by_groups, self.places, chip, self.topology.wraps
            )
        return seconds

    @property
    def bound(self) -> float | None:
        """Lower bound on the seconds of a run; ``None`` if no peak is known."""
        return max(self.seconds.values(), default=None)

    @property
    def utilization_bound(self) -> float | None:
        """Upper bound on model FLOPs utilization (MFU)."""
        if not self.bound or not self.program.useful_flops:
            return None
        peak = self.topology.chip.flops * self.topology.num_devices
        return self.program.useful_flops / (self.bound * peak)


def analyse(
    program: Program, topology: Topology, *, compiling: bool = True
) -> Analysis:
    """Traces a program and counts its memory, FLOPs and traffic.

    It also compiles the program if ``compiling`` and if the topology has a compiler.
    """
    arguments = shard_bytes(program.arguments)
    limit, outputs, temporaries, costs = topology.chip.memory, None, None, None
    places = ()
    # With an abstract mesh, tracing creates arrays, such as a kernel's tables, on this
    # host.
    with jax.sharding.use_abstract_mesh(program.mesh.abstract_mesh):
        traced = program.function.trace(*program.arguments)
        if compiling and topology.has_compiler:
            try:
                compiled = traced.lower().compile()
            except jax.errors.JaxRuntimeError as error:
                needed = overflow(str(error), arguments=arguments)
                if needed is None:
                    raise
                temporaries, limit = needed
            else:
                sizes = compiled.memory_analysis()
                # The compiled program drops unused arguments, which stay in memory.
                arguments = max(arguments, float(sizes.argument_size_in_bytes))
                outputs = float(sizes.output_size_in_bytes - sizes.alias_size_in_bytes)
                temporaries = float(sizes.temp_size_in_bytes)
                costs = hlo_costs.count(
                    compiled.as_text(),
                    num_devices=topology.num_devices,
                    num_slices=topology.slices,
                    loop_steps=program.loop_steps,
                )
                devices = tuple(program.mesh.devices.flat)
                places = links.places(devices, dimensions=topology.chip.dimensions)
    memory = Memory(arguments, outputs, temporaries, program.resident, limit)
    flops = program_flops(traced.jaxpr, loop_steps=program.loop_steps)
    return Analysis(program, topology, memory, flops, costs, places)


def overflow(message: str, *, arguments: float) -> tuple[float, float] | None:
    """Reads the error of a compiler that ran out of device memory.

    Args:
        message: the error's message; its figure includes the arguments.
        arguments: bytes of the program's arguments.

    Returns:
        Bytes of the temporaries and of the limit; ``None`` for any other error.
    """
    if 'RESOURCE_EXHAUSTED' not in message:
        return None
    for pattern in (
        # It says temporaries, but counts arguments and results too.
        rf'temporaries \({_AMOUNT}\) exc.*?\({_AMOUNT}\)',
        rf'Used {_AMOUNT} of {_AMOUNT} hbm',
    ):
        if match := re.search(pattern, message):
            used, limit = (float(match[i]) * _UNITS[match[i + 1]] for i in (1, 3))
            return used - arguments, limit
    return None
