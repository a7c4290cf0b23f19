"""Regions that oneDNN computes on the processor: the half that an artefact needs.

A program is built for the sizes of its inputs when they are first seen, and kept; where no size is free, when the
module is given its constants, which are reordered then, once. Any number of threads may call: each call takes memory of
its own, which the next one uses again.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence

import numpy as np

from byoc.contrib.onednn.building import Constants
from byoc.contrib.onednn.execution import Execution, PrimitivePlan
from byoc.contrib.onednn.fusing import chains_of
from byoc.contrib.onednn.library import library, unavailable
from byoc.contrib.onednn.table import BUILDERS
from byoc.contrib.region_program import Program, checked_program
from byoc.runtime.core.errors import ArtifactError, InputError
from byoc.runtime.core.fork import new_rlock
from byoc.runtime.core.ndarray import NDArray, from_any
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.core.strict_json import at, numbered, object_of, read_json
from byoc.runtime.modules.module import Members, Module, PackedFunction
from byoc.runtime.modules.saving import opened, sealed

KIND, VERSION = "onednn regions", 1
PROGRAM = "program.json"
MOST_PLANS = 64  # of a symbol, for different sizes of its inputs; then the oldest is forgotten
Sizes = tuple[tuple[int, ...], ...]
Planned = tuple[PrimitivePlan, list[Execution]]  # with the executions of it that nobody runs now


class OnednnModule(Module):
    """Symbols as programs of oneDNN's primitives."""

    type_key = "onednn"
    thread_safe = True

    def __init__(self, programs: Mapping[str, Program], signatures: Sequence[Signature]):
        super().__init__()
        self.programs, self.signatures = dict(programs), {s.symbol: s for s in signatures}
        self.symbols = tuple(self.programs)
        self._constants: dict[str, Constants] = {}
        self._plans: dict[str, dict[Sizes, tuple[PrimitivePlan, list[Execution]]]] = {
            symbol: {} for symbol in self.programs
        }
        self._lock = new_rlock()

    def unavailable(self) -> str | None:
        return unavailable()

    def constants(self) -> Mapping[str, Sequence[str]]:
        return {symbol: [spec.name for spec in s.constants] for symbol, s in self.signatures.items()}

    def constant_specs(self, symbol: str) -> Sequence[TensorSpec]:
        return self.signatures[symbol].constants

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

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        if name in self.programs:
            return functools.partial(self._call, name)
        return super().get_function(name, query_imports)

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

    def _call(self, symbol: str, *args: object) -> None:
        """Inputs, then outputs, which are filled.

        Raises UnavailableError without the library, InputError for arrays that do not fit, Unimplemented for sizes for
        which oneDNN lacks a primitive, DeviceError for what it says while it runs.
        """
        arrays, signature = [from_any(a) for a in args], self.signatures[symbol]
        count = len(signature.inputs)
        if len(arrays) != count + len(signature.outputs):
            raise InputError(
                f"{symbol}: expected {count} inputs and {len(signature.outputs)} outputs, got {len(arrays)} arrays"
            )
        inputs = [np.asarray(a, order="C") for a in arrays[:count]]
        outputs = [a if a.flags.c_contiguous else np.empty(a.shape, a.dtype) for a in arrays[count:]]
        sizes = signature.bind_sizes(inputs)
        shapes = tuple(a.shape for a in inputs)
        with self._lock:
            plan, free = self._planned(symbol, shapes, sizes)
            execution = free.pop() if free else None
        execution = execution or Execution(plan)
        execution.run(inputs, outputs)
        free.append(execution)  # which Python does at once
        for target, found in zip(arrays[count:], outputs, strict=True):
            if target is not found:
                np.copyto(target, found)

    def get_source(self, fmt: str = "") -> str:
        """The steps of each symbol, with what runs behind them in the same primitive."""
        lines: list[str] = []
        for symbol, program in self.programs.items():
            lines.append(symbol)
            for chain in chains_of(program):
                names = " + ".join([chain.step["operator"], *(post.operator for post in chain.posts)])
                lines.append(f"  {names}({', '.join(map(str, chain.reads))})")
        return "\n".join(lines)

    def save(self) -> dict[str, bytes]:
        data = {
            "signatures": [s.to_json() for s in self.signatures.values()],
            "programs": list(self.programs.values()),
        }
        return sealed(KIND, VERSION, {PROGRAM: json.dumps(data, indent=1).encode()})

    @classmethod
    def load(cls, members: Members) -> OnednnModule:
        _, content = opened(members, KIND, VERSION)
        if PROGRAM not in content:
            raise ArtifactError(f"{PROGRAM} is missing: save the model again")
        data = object_of(read_json(content[PROGRAM], PROGRAM), PROGRAM, ("signatures", "programs"))
        signatures = Signature.list_from_json(data["signatures"], at(PROGRAM, "signatures"))
        programs = [checked_program(item, place, BUILDERS) for place, item in numbered(data, "programs", PROGRAM)]
        if len(programs) != len(signatures):
            raise ArtifactError(f"{PROGRAM}: {len(programs)} programs for {len(signatures)} symbols")
        return cls(dict(zip([s.symbol for s in signatures], programs, strict=True)), signatures)
