"""Where the values of a row lie between the loops along it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.codegen.kernel.shared_rows import SharedRows
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.rows.row_loops import RowLoop
from byoc.ir.types import dtype_bytes
from byoc.te import PrimExpr, Tensor, placeholder
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, mentions, unique_nodes

LARGEST_ROW = 24 << 10  # bytes of local memory that a row may take, so that several groups share a unit
Key = tuple[object, ...]


@dataclass
class RowStorage:
    """*arrays* hold the values of stages, and what several loops load: *cached*, with the loop that loads it.

    *kept* has the tensor where the values of a stage lie: an array, a later result, or its own buffer, as for those
    that are *spilled*.
    """

    simplify: Simplifier
    kept: dict[Tensor, Tensor] = field(default_factory=dict)
    spilled: set[Tensor] = field(default_factory=set)
    arrays: list[Tensor] = field(default_factory=list)
    cached: dict[Key, tuple[RowLoop, Tensor]] = field(default_factory=dict)
    _locals: dict[tuple[Tensor, str], Tensor] = field(default_factory=dict)

    def is_kept(self, stage: Tensor) -> bool:
        """Whether the values of *stage* lie somewhere else than in its own buffer."""
        return stage in self.kept

    def place(self, stage: Tensor, found: SharedRows) -> tuple[Tensor, tuple[PrimExpr, ...]]:
        """Where the value of *stage* at a row and a point is read."""
        target = self.kept.get(stage, stage)
        return target, found.points if target in self.arrays else found.place(target)

    def key(self, load: Load) -> Key:
        """What is equal for loads of the same element."""
        return (load.tensor, self.simplify.flat_index(load.tensor, load.indices).key())

    def local(self, owner: Tensor, name: str, dtype: str) -> Tensor:
        """A local of *owner*, the same one each time."""
        return self._locals.setdefault((owner, name), placeholder((), dtype, name))


def row_storage(
    found: SharedRows,
    loops: Sequence[RowLoop],
    outside: Collection[Tensor],
    profile: DeviceProfile,
    shared: bool,
    simplify: Simplifier,
) -> RowStorage:
    """Storage for the rows of *found*; *shared*: a work-group has a row, and local memory for it."""
    storage = RowStorage(simplify)
    room = min(LARGEST_ROW, profile.local_memory // 2) if shared else 0
    shape = [p.extent for p in found.points]
    sizes = [d for d in shape if isinstance(d, int)]
    crossing = _crossing(found, loops)

    def array(name: str, dtype: str) -> Tensor | None:
        nonlocal room
        size = math.prod(sizes) * dtype_bytes(dtype)
        if len(sizes) < len(shape) or size > room:
            return None
        room -= size
        storage.arrays.append(placeholder(shape, dtype, name))
        return storage.arrays[-1]

    for stage in crossing:
        made = array(f"row_{stage.name}", stage.dtype)
        if made is not None:
            storage.kept[stage] = made
        elif stage not in outside:
            later = _later_result(found, stage, outside, storage)
            if later is None:
                storage.spilled.add(stage)
            else:
                storage.kept[stage] = later
    for key, (loop, load) in _repeated(found, loops, storage).items():
        made = array(f"row_{load.tensor.name}", load.dtype)
        if made is not None:
            storage.cached[key] = (loop, made)
    return storage


def _crossing(found: SharedRows, loops: Sequence[RowLoop]) -> list[Tensor]:
    """The stages with points that a later loop reads."""
    own = {stage: k for k, loop in enumerate(loops) for stage, reduce in loop.steps if reduce is None}
    read = {
        t for k, loop in enumerate(loops) for e in loop.values(found) for t in loaded_tensors(e) if own.get(t, k) < k
    }
    return [s for s in found.stages if s in read]


def _later_result(found: SharedRows, stage: Tensor, outside: Collection[Tensor], storage: RowStorage) -> Tensor | None:
    """A result of the row that is the last to read *stage*, in whose place its values may lie until then."""
    readers = [s for s in found.stages if stage in loaded_tensors(s.element)]
    last = readers[-1]
    free = last in outside and found.has_points(last) and last.dtype == stage.dtype
    return last if free and last not in storage.kept.values() else None


def _repeated(found: SharedRows, loops: Sequence[RowLoop], storage: RowStorage) -> Mapping[Key, tuple[RowLoop, Load]]:
    """The loads from outside that several loops make at a point, each with the first of these."""
    first: dict[Key, tuple[RowLoop, Load]] = {}
    result: dict[Key, tuple[RowLoop, Load]] = {}
    for loop in loops:
        for load in (n for e in loop.values(found) for n in unique_nodes(e) if isinstance(n, Load)):
            if load.tensor in found.stages or not any(mentions(load, p) for p in found.points):
                continue
            key = storage.key(load)
            if first.setdefault(key, (loop, load))[0] is not loop:
                result.setdefault(key, first[key])
    return result
