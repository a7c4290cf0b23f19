"""Runs of a whole program one after another in native code: a loop whose body it is.

Carried values take turns between two places, so that a run reads what the last one wrote; collected ones are written
where they stay. How many runs there will be is not known: there is room for as many as the last loop made, then for as
many again as were made so far, so that a loop without an end takes memory as it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from byoc.runtime.dso.run_state import FFI
from byoc.runtime.graph.loop_call import LoopCall, LoopResult

FEWEST, ROOM = 32, 1 << 26  # runs there is room for at first; bytes of the room for collected values at most
Kind = tuple[tuple[int, ...], np.dtype]  # the shape and the dtype of an array


def can_repeat(call: LoopCall, inputs: Sequence[np.ndarray], outputs: Sequence[Kind]) -> bool:
    """Whether every run of *call* reads what the run before it gives: shapes and dtypes stay as they are."""
    shape, dtype = outputs[call.going]
    if shape != () or dtype != np.bool_ or call.going in call.collected:
        return False
    pairs = ((inputs[k], outputs[o]) for k, o in call.carried)
    return all((array.shape, array.dtype) == kind for array, kind in pairs)


class NativeLoop:
    """One loop over *args*, the table of a program's arguments, whose outputs of *kinds* stand from *first* on."""

    def __init__(self, call: LoopCall, args: object, first: int, kinds: Sequence[Kind]):
        self._call, self._args, self._first, self._kinds = call, args, first, kinds
        self.arrays = [_Places(kind, k in call.collected, k == call.going) for k, kind in enumerate(kinds)]
        self._turning = [k for k, a in enumerate(self.arrays) if a.other is not None]
        self._places = [*self._turning, *call.collected]
        self._rooms: dict[int, list[np.ndarray]] = {k: [] for k in call.collected}
        self.done = 0
        moves = len(call.carried), [k for k, _ in call.carried], [first + o for _, o in call.carried]
        steps = [-1 for _ in self._turning] + [_bytes(kinds[k]) for k in call.collected]
        others = [_address(self.arrays[k].other) for k in self._turning] + [FFI.NULL] * len(call.collected)
        self._tables = {
            "to": FFI.new("int64_t[]", moves[1] or 1),
            "from": FFI.new("int64_t[]", moves[2] or 1),
            "places": FFI.new("int64_t[]", [first + k for k in self._places] or 1),
            "bytes": FFI.new("int64_t[]", steps or 1),
            "others": FFI.new("void *[]", others or 1),
        }
        self._struct = FFI.new("Loop *", _fields(self._tables, first + call.going, moves[0], len(self._places)))

    def run(self, runs: Callable[[object], int], most: int) -> int:
        """Go on until the last run; *runs* makes runs of the struct that it gets. 0, or why a run ended."""
        for k, array in enumerate(self.arrays):
            if array.first is not None:
                self._args[self._first + k] = _address(array.first)  # type: ignore[index]  # cffi's array
        room = most
        while True:
            for k in self._call.collected:
                shape, dtype = self._kinds[k]
                self._rooms[k].append(np.empty((room, *shape), dtype))
                self._args[self._first + k] = _address(self._rooms[k][-1])  # type: ignore[index]  # cffi's array
            self._struct.most = room
            status = runs(self._struct)
            self.done += int(self._struct.done)
            if status or not self._struct.is_going:
                return status
            room = min(self.done, self.most_room)

    @property
    def most_room(self) -> int:
        """For how many runs there may be room at once."""
        one = sum(_bytes(self._kinds[k]) for k in self._call.collected)
        return max(ROOM // one, 1) if one else 1 << 30

    def result(self) -> LoopResult:
        """What the runs gave."""
        collected = {k: _joined(rooms, self.done) for k, rooms in self._rooms.items()}
        kept = [collected[k][-1].copy() if k in collected else self.arrays[k].last(self.done) for k in self._call.kept]
        return LoopResult(kept, [collected[k] for k in self._call.collected])


class _Places:
    """Where an output is written: in turns to two arrays, always to the first (a flag), or where it is collected."""

    def __init__(self, kind: Kind, is_collected: bool, is_flag: bool):
        self.first = None if is_collected else np.empty(*kind)
        self.other = None if is_collected or is_flag else np.empty(*kind)

    def last(self, runs: int) -> np.ndarray:
        """The value of the last of so many runs."""
        found = self.other if self.other is not None and runs % 2 == 0 else self.first
        assert found is not None
        return found


def _joined(rooms: Sequence[np.ndarray], count: int) -> np.ndarray:
    """The first *count* elements of *rooms*, in memory that is not much larger."""
    if len(rooms) == 1:
        return rooms[0] if len(rooms[0]) == count else rooms[0][:count].copy()
    before = sum(len(room) for room in rooms[:-1])
    return np.concatenate([*rooms[:-1], rooms[-1][: count - before]])


def _fields(tables: Mapping[str, object], going: int, moves: int, outputs: int) -> dict[str, object]:
    return {**tables, "going": going, "moves": moves, "outputs": outputs}


def _bytes(kind: Kind) -> int:
    shape, dtype = kind
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _address(array: np.ndarray | None) -> object:
    assert array is not None
    return FFI.cast("void *", array.ctypes.data)


__all__ = ["FEWEST", "NativeLoop", "can_repeat"]
