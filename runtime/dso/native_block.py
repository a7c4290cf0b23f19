"""Functions of a whole program that are other libraries' programs, called without going back to the runtime.

A block is made for arrays of certain shapes: the program's executor is its own, with the memory that it needs, and
which array is which argument is decided beforehand. Its C struct is ``Native`` (``native_structs.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from byoc.runtime.dso.native_loop import LoopTables, address
from byoc.runtime.dso.run_state import CALL, DECISION, FFI, LOOP
from byoc.runtime.graph.graph import Kind, LoopCall


class Owner(Protocol):
    """An executor whose program native code calls."""

    def failed_inside(self) -> tuple[Sequence[str], BaseException | None]:
        """Of the last run, which failed: the checks that an index outside is one of, and what was raised."""
        ...


@dataclass(frozen=True)
class BoundProgram:
    """A program on memory of its own, ready for inputs of certain kinds.

    Attributes:
        fields: those of ``Native`` that say what is called, on what.
        first_output: the argument that is the first output.
        outputs: the kinds of the outputs.
        checks: the names of its checks of indices, by their numbers.
        owner: what keeps the memory, and knows why a run failed.
    """

    fields: dict[str, Any]
    first_output: int
    outputs: Sequence[Kind]
    checks: Sequence[str]
    owner: Owner


class NativeBlock:
    """What stands in the table of externals in the place of a function: *fields* of the struct, and what they need."""

    def __init__(
        self, fields: dict[str, object], program: BoundProgram | None, inner: Sequence[NativeBlock] = (), *kept: object
    ):
        self.struct: Any = FFI.new("Native *", fields)
        self._program, self._inner = program, inner
        self._kept = fields, kept

    def failed_program(self) -> BoundProgram | None:
        """The program in which the last call failed, which is forgotten; None where it did not."""
        if not self.struct.failed:
            return None
        self.struct.failed = 0
        found = (block.failed_program() for block in self._inner)
        return self._program or next((program for program in found if program is not None), None)


def called(program: BoundProgram, inputs: Sequence[int], outputs: Sequence[int]) -> NativeBlock:
    """A call whose arguments are *inputs* and *outputs*, positions among the arrays."""
    to = [*range(len(inputs)), *(program.first_output + k for k in range(len(outputs)))]
    tables = _positions(to), _positions([*inputs, *outputs])
    fields = {**program.fields, "kind": CALL, "count": len(to), "to": tables[0], "from": tables[1]}
    return NativeBlock(fields, program, (), tables)


def decided(test: int, then: NativeBlock, other: NativeBlock) -> NativeBlock:
    """*then* where the boolean array *test* is true, else *other*."""
    fields = {"kind": DECISION, "test": test, "then": then.struct, "other": other.struct}
    return NativeBlock(fields, None, (then, other))


@dataclass(frozen=True)
class LoopResultPlace:
    """An array that a loop fills: *at*, with output *output* of its last run, or with the array *given* without one."""

    at: int
    output: int | None
    given: int
    bytes: int


def repeated(
    program: BoundProgram, call: LoopCall, test: int, inputs: Sequence[int], results: Sequence[LoopResultPlace]
) -> NativeBlock:
    """Runs of *program* as *call* says, the first on the arrays *inputs* if the boolean array *test* says so."""
    tables = LoopTables(call, program.first_output, program.outputs)
    for k, places in tables.places.items():
        program.fields["args"][program.first_output + k] = address(places.first)
    given = _positions(range(len(inputs))), _positions(inputs)
    ends = {
        "result_at": _positions([r.at for r in results]),
        "result_from": _positions([-1 if r.output is None else tables.turning.index(r.output) for r in results]),
        "result_given": _positions([r.given for r in results]),
        "result_bytes": _positions([r.bytes for r in results]),
    }
    fields = {
        **program.fields,
        "kind": LOOP,
        "count": len(inputs),
        "to": given[0],
        "from": given[1],
        "test": test,
        "loop": tables.struct,
        "first": tables.first,
        "second": tables.second,
        "results": len(results),
        **ends,
    }
    tables.struct.most = np.iinfo(np.int64).max
    return NativeBlock(fields, program, (), tables)


def _positions(numbers: Sequence[int]) -> object:
    return FFI.new("int64_t[]", list(numbers) or 1)
