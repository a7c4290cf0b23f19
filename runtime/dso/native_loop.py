"""Runs of a whole program one after another in native code: a loop whose body it is.

Carried values take turns between two places, so that a run reads what the last one wrote; collected ones are written
where they stay. How many runs there will be is not known: there is room for as many as the last loop made, then for as
many again as were made so far, so that a loop without an end takes memory as it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from byoc.runtime.dso.run_state import FFI, TURNS
from byoc.runtime.graph.graph import Kind, LoopCall, LoopResult

FEWEST, ROOM = 32, 1 << 26  # runs there is room for at first; bytes of the room for collected values at most


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
    """

    def __init__(self, call: LoopCall, first: int, kinds: Sequence[Kind]):
        kept = [k for k in range(len(kinds)) if k not in call.collected]
        self.places = {k: NativePlaces(kinds[k], k == call.going) for k in kept}
        self.turning = [k for k in kept if k != call.going]
        moving = [*self.turning, *call.collected]
        steps = [TURNS for _ in self.turning] + [bytes_of(kinds[k]) for k in call.collected]
        seconds = [address(self.places[k].other) for k in self.turning]
        self.first = FFI.new("void *[]", [address(self.places[k].first) for k in self.turning] or 1)
        self.second = FFI.new("void *[]", seconds or 1)
        tables = {
            "to": FFI.new("int64_t[]", [k for k, _ in call.carried] or 1),
            "from": FFI.new("int64_t[]", [first + o for _, o in call.carried] or 1),
            "places": FFI.new("int64_t[]", [first + k for k in moving] or 1),
            "bytes": FFI.new("int64_t[]", steps or 1),
            "others": FFI.new("void *[]", seconds + [FFI.NULL] * len(call.collected) or 1),
        }
        counts = {"going": first + call.going, "moves": len(call.carried), "outputs": len(moving)}
        self._tables = tables
        self.struct: Any = FFI.new("Loop *", {**tables, **counts})


class NativeLoop:
    """One loop over *args*, the table of a program's arguments, whose outputs of *kinds* stand from *first* on."""

    def __init__(self, call: LoopCall, args: Any, first: int, kinds: Sequence[Kind]):
        self._call, self._args, self._first, self._kinds = call, args, first, kinds
        self._tables = LoopTables(call, first, kinds)
        self._rooms: dict[int, list[np.ndarray]] = {k: [] for k in call.collected}
        self.done = 0

    def run(self, runs: Callable[[object], int], most: int) -> int:
        """Go on until the last run; *runs* makes runs of the struct that it gets. 0, or why a run ended."""
        for k, places in self._tables.places.items():
            self._args[self._first + k] = address(places.first)
        struct, room = self._tables.struct, most
        while True:
            for k in self._call.collected:
                shape, dtype = self._kinds[k]
                self._rooms[k].append(np.empty((room, *shape), dtype))
                self._args[self._first + k] = address(self._rooms[k][-1])
            struct.most = room
            status = runs(struct)
            self.done += int(struct.done)
            if status or not struct.is_going:
                return status
            room = min(self.done, self.most_room)

    @property
    def most_room(self) -> int:
        """For how many runs there may be room at once."""
        one = sum(bytes_of(self._kinds[k]) for k in self._call.collected)
        return max(ROOM // one, 1) if one else 1 << 30

    def result(self) -> LoopResult:
        """What the runs gave."""
        collected = {k: _joined(rooms, self.done) for k, rooms in self._rooms.items()}
        kept = [
            collected[k][-1].copy() if k in collected else self._tables.places[k].last(self.done)
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
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def address(array: np.ndarray) -> object:
    """The address of an array's first element."""
    return FFI.cast("void *", array.ctypes.data)


__all__ = ["FEWEST", "LoopTables", "NativeLoop", "NativePlaces", "address", "bytes_of", "can_repeat"]
