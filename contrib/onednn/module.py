"""Regions that oneDNN computes on the processor: the half that an artefact needs.

A program is built for the sizes of its inputs when they are first seen, and kept; where no size is free, when the
module is given its constants, which are reordered then, once. Any number of threads may call: each call takes memory of
its own, which the next one uses again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from byoc.contrib.onednn.building import Constants
from byoc.contrib.onednn.execution import Execution, PrimitivePlan
from byoc.contrib.onednn.fusing import chains_of
from byoc.contrib.onednn.library import library, unavailable
from byoc.contrib.onednn.table import BUILDERS
from byoc.contrib.program_module import ProgramModule
from byoc.contrib.region_program import RegionProgram
from byoc.runtime.core.fork import new_rlock
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import Signature

MOST_PLANS = 64  # of a symbol, for different sizes of its inputs; then the oldest is forgotten
Sizes = tuple[tuple[int, ...], ...]
Planned = tuple[PrimitivePlan, list[Execution]]  # with the executions of it that nobody runs now


class OnednnModule(ProgramModule):
    """Symbols as programs of oneDNN's primitives."""

    type_key = "onednn"
    thread_safe = True
    content_kind = "onednn regions"
    operators = BUILDERS

    def __init__(self, programs: Mapping[str, RegionProgram], signatures: Sequence[Signature]):
        super().__init__(programs, signatures)
        self._constants: dict[str, Constants] = {}
        self._plans: dict[str, dict[Sizes, Planned]] = {symbol: {} for symbol in self.programs}
        self._lock = new_rlock()

    def unavailable(self) -> str | None:
        return unavailable()

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        """Raises UnavailableError without the library, Unimplemented where it lacks a primitive on this processor."""
        library()
        with self._lock:
            self._constants[symbol] = Constants([c.numpy() for c in constants])
            signature = self.signatures[symbol]
            if not signature.size_names:
                self._planned(symbol, tuple(s.concrete_shape({}) for s in signature.inputs), {})

    def memory(self, symbol: str) -> Mapping[str, int]:
        """Bytes of weights in oneDNN's orders, and of temporary values for one call, as far as they are known."""
        with self._lock:
            constants = self._constants.get(symbol)
            weights = 0 if constants is None else constants.nbytes
            scratch = max((plan.nbytes for plan, _ in self._plans[symbol].values()), default=0)
        return {name: count for name, count in (("weights", weights), ("scratch", scratch)) if count}

    def _planned(self, symbol: str, shapes: Sizes, sizes: Mapping[str, int]) -> Planned:
        """The plan for inputs of *shapes*, made once, with the executions of it that nobody runs now."""
        plans, threads = self._plans[symbol], library().threads
        if shapes not in plans or plans[shapes][0].threads != threads:  # as a forked child has fewer
            constants = self._constants.setdefault(symbol, Constants([]))
            plan = PrimitivePlan(library(), self.programs[symbol], self.signatures[symbol], constants, sizes)
            while len(plans) >= MOST_PLANS:
                del plans[next(iter(plans))]
            plans[shapes] = (plan, [])
        return plans[shapes]

    def run(
        self, symbol: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], sizes: Mapping[str, int]
    ) -> None:
        """Raises UnavailableError without the library, Unimplemented for sizes for which oneDNN lacks a primitive,
        DeviceError for what it says while it runs.
        """
        with self._lock:
            plan, free = self._planned(symbol, tuple(a.shape for a in inputs), sizes)
            execution = free.pop() if free else None
        execution = execution or Execution(plan)
        execution.run(inputs, outputs)
        free.append(execution)  # which Python does at once

    def get_source(self, fmt: str = "") -> str:
        """The steps of each symbol, with what runs behind them in the same primitive."""
        lines: list[str] = []
        for symbol, program in self.programs.items():
            lines.append(symbol)
            for chain in chains_of(program):
                names = " + ".join([chain.step["operator"], *(post.operator for post in chain.posts)])
                lines.append(f"  {names}({', '.join(map(str, chain.reads))})")
        return "\n".join(lines)
