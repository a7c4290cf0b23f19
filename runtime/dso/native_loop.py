"""Runs of a whole program one after another in native code: a loop whose body it is.

Carried values take turns between two places, so that a run reads what the last one wrote; collected ones are written
where they stay. How many runs there will be is not known: there is room for as many as the last loop made, then for as
many again as were made so far, so that a loop without an end takes memory as it goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from byoc.runtime.dso.run_state import FFI, TURNS
from byoc.runtime.graph.graph import Kind, LoopCall, LoopResult

_VOID = FFI.typeof("void *")
FEWEST, ROOM = 32, 1 << 26  # runs there is room for at first; bytes of the room for collected values at most
KEPT_BYTES = 1 << 20  # of places that stay from loop to loop, whose values are copied then
_PLAIN = frozenset("fiub")  # kinds of dtypes that the buffer protocol knows


def can_repeat(call: LoopCall, inputs: Sequence[Kind], outputs: Sequence[Kind]) -> bool:
    """Whether every run of *call* reads what the run before it gives: shapes and dtypes stay as they are."""
    shape, dtype = outputs[call.going]
    if shape != () or dtype != np.bool_ or call.going in call.collected:
        return False
    return all(inputs[k] == outputs[o] for k, o in call.carried)


class NativePlaces:
    """Where an output is written: in turns to two arrays, always to the first (a flag), or where it is collected."""

    def __init__(self, kind: Kind, is_flag: bool):
        self.first = np.empty(*kind)
        self.other = self.first if is_flag else np.empty(*kind)

    def last(self, runs: int) -> np.ndarray:
        """The value of the last of so many runs."""
        return self.first if runs % 2 else self.other


class LoopTables:
    """The C struct of a loop over a program whose outputs, of *kinds*, are its arguments from *first* on.

    Attributes:
        places: those of the outputs that are not collected, by output.
        turning: the outputs that take turns.
        first, second: the addresses of their two places, as C arrays.
        firsts: each argument that is an output which is not collected, with its place in the first run.
        may_stay: whether the places are few bytes, which another loop may use.
    """

    def __init__(self, call: LoopCall, first: int, kinds: Sequence[Kind]):
        kept = [k for k in range(len(kinds)) if k not in call.collected]
        self.places = {k: NativePlaces(kinds[k], k == call.going) for k in kept}
        self.may_stay = sum(bytes_of(kinds[k]) for k in kept) <= KEPT_BYTES
        self.turning = [k for k in kept if k != call.going]
        moving = [*self.turning, *call.collected]
        steps = [TURNS for _ in self.turning] + [bytes_of(kinds[k]) for k in call.collected]
        seconds = [address(self.places[k].other) for k in self.turning]
        self.first = FFI.new("void *[]", [address(self.places[k].first) for k in self.turning] or 1)
        self.second = FFI.new("void *[]", seconds or 1)
        tables: dict[str, Any] = {
            "to": FFI.new("int64_t[]", [k for k, _ in call.carried] or 1),
            "from": FFI.new("int64_t[]", [first + o for _, o in call.carried] or 1),
            "places": FFI.new("int64_t[]", [first + k for k in moving] or 1),
            "bytes": FFI.new("int64_t[]", steps or 1),
            "others": FFI.new("void *[]", seconds + [FFI.NULL] * len(call.collected) or 1),
        }
        self.firsts = [(first + k, address(places.first)) for k, places in self.places.items()]
        counts = {"going": first + call.going, "moves": len(call.carried), "outputs": len(moving)}
        self._tables, self.others = tables, tables["others"]
        self.struct: Any = FFI.new("Loop *", {**tables, **counts})


class NativeLoop:
    """One loop over *args*, the table of a program's arguments, whose outputs stand from *first* on.

    *kinds* are those of the collected outputs, by output.

    Attributes:
        first: the argument that is the first output.
        done: how many runs there were.
        last_runs: how many of them were made at once the last time.
    """

    def __init__(self, call: LoopCall, args: Any, first: int, kinds: Mapping[int, Kind]):
        self._call, self._args, self.first, self._kinds = call, args, first, kinds
        self._rooms: dict[int, list[np.ndarray]] = {k: [] for k in call.collected}
        self._tables: LoopTables | None = None
        self._before: LoopTables | None = None  # what the next run may read
        self._runs = self.last_runs = self.done = 0

    def begin(self, tables: LoopTables) -> None:
        """Have the next runs write to the places of *tables*, in turns with the runs before where they did so too."""
        if tables is self._tables:
            return
        self._before, self._tables, self._runs = self._tables, tables, 0
        for argument, place in tables.firsts:
            self._args[argument] = place
        FFI.memmove(
            tables.others, tables.second, len(tables.turning) * FFI.sizeof("void *")
        )  # whose turns may have begun

    def go_on(self, most: int, runs: Callable[[object], int]) -> tuple[int, bool]:
        """At most *most* runs more, which *runs* makes of the struct that it gets: 0 or why one ended, and whether
        there is another.
        """
        assert self._tables is not None
        struct = self._tables.struct
        for k in self._call.collected:
            shape, dtype = self._kinds[k]
            self._rooms[k].append(np.empty((most, *shape), dtype))
            self._args[self.first + k] = address(self._rooms[k][-1])
        struct.most = most
        status = runs(struct)
        self.last_runs = int(struct.done)
        self._runs += self.last_runs
        self.done += self.last_runs
        return status, bool(struct.is_going)

    @property
    def most_room(self) -> int:
        """For how many runs there may be room at once."""
        one = sum(bytes_of(self._kinds[k]) for k in self._call.collected)
        return max(ROOM // one, 1) if one else 1 << 30

    def result(self) -> LoopResult:
        """What the runs gave."""
        assert self._tables is not None
        collected = {k: _joined(rooms, self.done) for k, rooms in self._rooms.items()}
        kept = [
            collected[k][-1].copy() if k in collected else self._tables.places[k].last(self._runs)
            for k in self._call.kept
        ]
        return LoopResult(kept, [collected[k] for k in self._call.collected])


def _joined(rooms: Sequence[np.ndarray], count: int) -> np.ndarray:
    """The first *count* elements of *rooms*, in memory that is not much larger."""
    if len(rooms) == 1:
        return rooms[0] if len(rooms[0]) == count else rooms[0][:count].copy()
    before = sum(len(room) for room in rooms[:-1])
    return np.concatenate([*rooms[:-1], rooms[-1][: count - before]])


def bytes_of(kind: Kind) -> int:
    """The bytes of an array of *kind*."""
    shape, dtype = kind
    return math.prod(shape) * dtype.itemsize


def address(array: np.ndarray) -> object:
    """The address of the first element of a contiguous array, which the caller keeps."""
    return FFI.from_buffer(array) if array.dtype.kind in _PLAIN else FFI.cast(_VOID, array.ctypes.data)


__all__ = ["FEWEST", "LoopTables", "NativeLoop", "NativePlaces", "address", "bytes_of", "can_repeat"]
