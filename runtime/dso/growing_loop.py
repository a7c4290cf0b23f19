"""A loop in native code whose carried values change their sizes from run to run: they grow, or become less.

So are the caches of a decoder, and what a loop joins along an axis. The sizes of so many runs are a table with a row
for each run, which is made once for the sizes with which a loop begins; memory is taken for the largest of these runs.
It goes as far as each size changes by the same number from run to run, which is found from the first run and then held
to what the outputs of each run say. Where a loop goes on behind its last row, another table follows.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.derived_size import SizePolynomial, names_in, parts_of, polynomial
from byoc.runtime.core.errors import InputError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import Dim, TensorSpec
from byoc.runtime.dso.native_loop import FEWEST, LoopTables, NativeLoop
from byoc.runtime.dso.native_program import NativeProgram, Workspace
from byoc.runtime.dso.run_state import FFI
from byoc.runtime.graph.executor_base import as_input
from byoc.runtime.graph.graph import Kind, LoopCall, LoopResult
from byoc.runtime.graph.memory_plan import MemoryPlan

ROOM = 1 << 26  # bytes of a run up to which there are rows in any case, else as long as it takes twice the first one's
KEPT_TABLES = 8
Runs = Callable[[object, int, object, object], int]


def growing_loop(
    call: LoopCall, native: NativeProgram, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> GrowingLoop | None:
    """*call* over the program *native*; None where no size changes, or where native code cannot make its runs."""
    going = outputs[call.going]
    if native.whole.externals or going.shape != () or going.dtype != "bool" or call.going in call.collected:
        return None
    pairs = [(inputs[k], outputs[o]) for k, o in call.carried]
    if any(one.dtype != two.dtype or len(one.shape) != len(two.shape) for one, two in pairs):
        return None
    if all(one.shape == two.shape for one, two in pairs):
        return None
    collected = {d for k in call.collected for d in outputs[k].shape if not isinstance(d, int)}
    return GrowingLoop(call, native, (inputs, outputs)) if collected <= _staying(call, inputs, pairs) else None


def _staying(call: LoopCall, inputs: Sequence[TensorSpec], pairs: Sequence[tuple[TensorSpec, TensorSpec]]) -> set[Dim]:
    """The named sizes of *inputs* that are the same in all runs."""
    carried = {k for k, _ in call.carried}
    fixed = {d for k, spec in enumerate(inputs) for d in spec.shape if k not in carried}
    same = {d for one, two in pairs for d, e in zip(one.shape, two.shape, strict=True) if d == e}
    return {d for d in fixed | same if isinstance(d, str)}


@dataclass(frozen=True)
class SizeTable:
    """What the sizes of some runs come to.

    Attributes:
        rows: for each run what its program gets as sizes, ``int64[runs, sizes and offsets]``.
        buffer_bytes: the most bytes of each buffer.
        shapes: for each output its dimensions, ``int64[runs, rank]``.
        kinds: for each output the array in which there is room for it.
        kept: the places of outputs, where they are few bytes that stay from loop to loop.
    """

    rows: np.ndarray
    buffer_bytes: Sequence[int]
    shapes: Sequence[np.ndarray]
    kinds: Sequence[Kind]
    kept: list[LoopTables] = field(default_factory=list)
    _laid_out: list[tuple[MemoryPlan, Any]] = field(default_factory=list)

    def laid_out(self, memory: MemoryPlan) -> Any:
        """The rows for buffers where *memory* has them, as a C array."""
        if not self._laid_out or self._laid_out[0][0] is not memory:
            self.rows[:, self.rows.shape[1] - len(memory.offsets) :] = memory.offsets
            self._laid_out[:] = [(memory, FFI.from_buffer("int64_t[]", self.rows))]
        return self._laid_out[0][1]

    def output_shapes(self, run: int) -> list[tuple[int, ...]]:
        """The shapes of the outputs of a run."""
        return [tuple(shape[run].tolist()) for shape in self.shapes]

    def places(self, call: LoopCall, first: int) -> LoopTables:
        """Where the outputs go that are not collected; the first of all outputs is the argument *first*."""
        if self.kept:
            return self.kept[0]
        tables = LoopTables(call, first, self.kinds)
        if tables.may_stay:
            self.kept.append(tables)
        return tables


class GrowingLoop:
    """Loops *call* over the program *native*, whose inputs and outputs are *specs*.

    Attributes:
        workspace: the memory of their runs.
    """

    def __init__(self, call: LoopCall, native: NativeProgram, specs: tuple[Sequence[TensorSpec], Sequence[TensorSpec]]):
        self.call, self.workspace = call, Workspace()
        self._native = native
        self._inputs, self._outputs = specs
        outputs = self._outputs
        self._dtypes = [numpy_dtype(spec.dtype) for spec in outputs]
        self._tables: OrderedDict[tuple[object, int], SizeTable] = OrderedDict()
        self._table: SizeTable | None = None
        self._last_runs = FEWEST
        self._first_kinds: list[Kind] = []
        self._first_sizes = Sizes()

    def begun(self, inputs: Sequence[object]) -> tuple[Sequence[np.ndarray], Sizes]:
        """*inputs* of a first run as the code reads them, and their sizes.

        Raises InputError for one that does not fit.
        """
        ready = [value for value in inputs if isinstance(value, np.ndarray)]
        if len(ready) == len(inputs) == len(self._first_kinds) and all(map(_is_ready, ready, self._first_kinds)):
            return ready, self._first_sizes
        given = zip(inputs, self._inputs, strict=True)
        arrays = [np.require(as_input(value, spec), requirements=["C", "A"]) for value, spec in given]
        sizes = Sizes()
        for array, spec in zip(arrays, self._inputs, strict=True):
            spec.bind(array, sizes)
        self._first_kinds, self._first_sizes = [(array.shape, array.dtype) for array in arrays], sizes
        return arrays, sizes

    def collected_kinds(self, sizes: Sizes) -> dict[int, Kind]:
        """The kinds of the outputs that are collected."""
        return {k: (self._outputs[k].concrete_shape(sizes), self._dtypes[k]) for k in self.call.collected}

    def run(self, loop: NativeLoop, sizes: Sizes, runs: Runs, check: Callable[[Sizes], None]) -> int:
        """Go on until the last run, the first of which has *sizes*: 0, or why a run ended.

        Args:
            loop: where its outputs go.
            sizes: those of the inputs of the first run.
            runs: makes runs of rows of sizes, the numbers of each, the memory of buffers and the struct of the loop.
            check: raises for sizes that this machine has no room for.
        """
        status, is_going, most, whole = 0, True, self._last_runs, self._native.whole
        while is_going and status == 0:
            if self._table is not None and loop.done:
                sizes = self._next(sizes, self._table.output_shapes(loop.last_runs - 1))
            table = self._table = self._sized(sizes, min(most, loop.most_room), check)
            if whole.arena_bytes is None:
                self.workspace.take_rooms(table.buffer_bytes, whole.lifetimes)
            elif not self.workspace.place:
                self.workspace.take(MemoryPlan((), whole.arena_bytes))
            rows, row, place = table.laid_out(self.workspace.memory), table.rows.shape[1], self.workspace.place
            loop.begin(table.places(self.call, loop.first))
            status, is_going = loop.go_on(len(table.rows), lambda struct: runs(rows, row, place, struct))  # noqa: B023  # called at once
            most = max(loop.done, FEWEST)
        self._last_runs = max(1 << (loop.done - 1).bit_length(), FEWEST)
        return status

    def result(self, loop: NativeLoop) -> LoopResult:
        """What the runs of *loop* gave."""
        assert self._table is not None
        table, found, run = self._table, loop.result(), loop.last_runs - 1
        fixed, dtypes, is_kept = (*self.call.collected, self.call.going), self._dtypes, bool(table.kept)
        kept = [
            value if k in fixed else _as(value, table.shapes[k][run].tolist(), dtypes[k], is_kept)
            for k, value in zip(self.call.kept, found.kept, strict=True)
        ]
        return LoopResult(kept, found.collected)

    def _next(self, sizes: Sizes, shapes: Sequence[tuple[int, ...]]) -> Sizes:
        """The sizes behind a run of *sizes*, whose outputs have *shapes*. Raises InputError for what does not fit."""
        given = dict(self.call.carried)
        found = Sizes()
        for k, spec in enumerate(self._inputs):
            shape = shapes[given[k]] if k in given else spec.concrete_shape(sizes)
            spec.bind(np.broadcast_to(np.zeros((), numpy_dtype(spec.dtype)), shape), found)
        return found

    def _sized(self, start: Sizes, count: int, check: Callable[[Sizes], None]) -> SizeTable:
        """The table of at most *count* runs, the first of which has the sizes *start*: of the last ones, or a new one.

        Raises InputError for sizes that a run cannot have, UserError for those that this machine cannot.
        """
        key = tuple(sorted(start.items())), count
        if key not in self._tables:
            while len(self._tables) >= KEPT_TABLES:
                self._tables.popitem(last=False)
            check(start)
            steps = self._steps(start)
            self._tables[key] = table = self._new_table(_Columns(start, steps, count))
            check(moved(start, steps, len(table.rows) - 1))
        self._tables.move_to_end(key)
        return self._tables[key]

    def _steps(self, start: Sizes) -> dict[str, int]:
        """By how much the sizes change behind a run of *start*; nothing where the next run is another one's."""
        try:
            after = self._next(start, [spec.concrete_shape(start) for spec in self._outputs])
        except InputError:
            return {}
        return {name: after[name] - size for name, size in start.items() if name in after}

    def _new_table(self, columns: _Columns) -> SizeTable:
        whole, call, outputs = self._native.whole, self.call, self._outputs
        given, shapes = columns.of(whole.sizes), [columns.of(spec.shape) for spec in outputs]
        carried = dict(call.carried)
        for k, spec in enumerate(self._inputs):
            columns.follow(columns.of(spec.shape), shapes[carried[k]] if k in carried else None)
        rows = np.zeros((columns.fitting, len(whole.sizes) + len(whole.lifetimes)), np.int64)
        rows[:, : len(whole.sizes)] = given[: columns.fitting]
        sizes = [s[: len(rows)].prod(axis=1) * d.itemsize for s, d in zip(shapes, self._dtypes, strict=True)]
        turning = [k for k in range(len(shapes)) if k not in (*call.collected, call.going)]
        buffers = self._native.buffer_bytes_of_runs(rows)
        taken = buffers.sum(axis=1) + sum(2 * sizes[k] for k in turning)
        kept = max(_leading(taken <= max(ROOM, 2 * taken[0])), 1)
        kinds: list[Kind] = [(tuple(s[0].tolist()), d) for s, d in zip(shapes, self._dtypes, strict=True)]
        for k in turning:
            kinds[k] = (int(sizes[k][:kept].max()),), np.dtype(np.uint8)
        return SizeTable(rows[:kept], buffers[:kept].max(axis=0).tolist(), shapes, kinds)


_FUNCTIONS: dict[str, Callable[[Sequence[np.ndarray]], np.ndarray]] = {
    "div": lambda v: v[0] // v[1],
    "trunc": lambda v: np.sign(v[0]) * (np.abs(v[0]) // v[1]),
    "min": lambda v: np.minimum.reduce(v),
    "max": lambda v: np.maximum.reduce(v),
    "broadcast": lambda v: np.where((np.minimum.reduce(v) == 0) & (np.maximum.reduce(v) == 1), 0, np.maximum.reduce(v)),
    "window": lambda v: v[0],
}


class _Columns:
    """Sizes in *count* runs, if those of the first one change by *steps* from run to run.

    Attributes:
        fitting: how many runs, from the first on, have the sizes that were asked for, as far as they are known to.
    """

    def __init__(self, start: Sizes, steps: Mapping[str, int], count: int):
        self._start, self._steps, self._runs = start, steps, np.arange(count)
        self.fitting = count

    def of(self, dims: Sequence[Dim]) -> np.ndarray:
        """The sizes *dims*: ``int64[runs, dims]``. Raises InputError where the first run has no such."""
        found = np.empty((len(self._runs), len(dims)), np.int64)
        for k, dim in enumerate(dims):
            found[:, k] = self._column(dim)
        self._only(found.min(axis=1, initial=0) >= 0)
        return found

    def follow(self, given: np.ndarray, made: np.ndarray | None) -> None:
        """Have the shapes *given* in each run but the first be what the one before *made*; without it they stay."""
        expected = given[:1] if made is None else made[:-1]
        self._only(np.append(True, (given[1:] == expected).all(axis=1)))

    def _only(self, holds: np.ndarray) -> None:
        self.fitting = min(self.fitting, _leading(holds))

    def _column(self, dim: Dim) -> np.ndarray | int:
        assert dim is not None
        if isinstance(dim, int):
            return dim
        first = self._start[dim]  # or the error that the first run has no such size
        if not names_in(dim) <= self._start.keys():
            return np.array([first, *(self._in_run(dim, run) for run in self._runs[1:].tolist())])
        return self._value(polynomial(dim))

    def _value(self, size: SizePolynomial) -> np.ndarray:
        total = np.zeros_like(self._runs)
        for term, count in size.terms.items():
            total += count * math.prod(map(self._atom, term))
        return total

    def _atom(self, atom: str) -> np.ndarray:
        parts = parts_of(atom)
        if parts is None:
            name = json.loads(atom) if atom.startswith('"') else atom
            return self._start[name] + self._steps.get(name, 0) * self._runs
        values = [self._value(operand) for operand in parts[1]]
        if parts[0] == "window":
            self._only(values[0] >= 1)
        return _FUNCTIONS[parts[0]](values)

    def _in_run(self, dim: str, run: int) -> int:
        """The size in one run; below 0 where it is none."""
        try:
            return moved(self._start, self._steps, run)[dim]
        except InputError:
            return -1


def moved(sizes: Sizes, steps: Mapping[str, int], runs: int) -> Sizes:
    """The sizes behind so many runs, from one to the next of which they change by *steps*."""
    return Sizes({name: size + runs * steps.get(name, 0) for name, size in sizes.items()})


def _is_ready(array: np.ndarray, kind: Kind) -> bool:
    flags = array.flags
    return array.shape == kind[0] and array.dtype == kind[1] and flags.c_contiguous and flags.aligned


def _leading(holds: np.ndarray) -> int:
    """How many of the first elements are true."""
    return len(holds) if holds.all() else int(holds.argmin())


def _as(room: np.ndarray, shape: Sequence[int], dtype: np.dtype, is_kept: bool) -> np.ndarray:
    """The array that lies at the begin of *room*, in memory of its own where that one *is_kept* or much larger."""
    size = math.prod(shape) * dtype.itemsize
    part = room[:size].copy() if is_kept or 2 * size <= len(room) else room[:size]
    return part.view(dtype).reshape(shape)
