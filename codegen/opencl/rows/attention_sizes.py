"""How many rows, keys and columns of an attention a work-item of a GPU has, by what a device takes and has."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.codegen.kernel.attention import Attention
from byoc.codegen.kernel.choice import Choice
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.choosing import STEP_PENALTY, Ranked, roughly
from byoc.codegen.opencl.device.kernel_plan import numbered
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.ir.types import dtype_bytes
from byoc.te import Index
from byoc.te.expr import Const

KIND = "attention"  # of schedules and choices
ACROSS, DOWN = 8, 16  # work-items of a group, along the keys and the columns, and along the rows
TILES = ((4, 4), (2, 8), (2, 4), (1, 8), (1, 4), (2, 2), (1, 2), (1, 1))  # rows and keys of a work-item, see tile_sizes
LARGEST_LOCAL = 48 << 10  # bytes: what a kernel may have on every GPU that says that it has more
VECTOR = 4
MOST_RESULTS = 64  # of a work-item, in registers
ENOUGH_GROUPS = 2  # for each unit; smaller blocks of rows are taken until there are as many


@dataclass(frozen=True)
class TileSizes:
    """How many *rows* and *keys* a work-item has, and *columns*, of which some may not exist."""

    rows: int
    keys: int
    columns: int
    depth: int

    @property
    def block(self) -> int:
        """The rows of a group."""
        return self.rows * DOWN

    @property
    def step(self) -> int:
        """The keys that a group takes at a time."""
        return self.keys * ACROSS

    @property
    def width(self) -> int:
        """The columns of a group, those too that do not exist."""
        return self.columns * ACROSS

    @property
    def vector(self) -> int:
        """The neighbours in local memory that a work-item reads at once, along the depth, the columns and the keys."""
        return VECTOR if self.depth % VECTOR == 0 and self.columns % VECTOR == 0 else 1

    @property
    def line(self) -> int:
        """The elements from one query, or key, to the next."""
        return self.depth + self.vector

    @property
    def row(self) -> int:
        """The elements from the weights of one row to those of the next."""
        return self.step + self.vector

    def column(self, across: str, j: str) -> str:
        """The *j*-th column of the work-item that is so far *across*."""
        if self.vector == 1:
            return f"{across} + {j} * {ACROSS}"
        return f"{across} * {VECTOR} + {j} / {VECTOR} * {VECTOR * ACROSS} + {j} % {VECTOR}"

    def bytes(self, dtype: str) -> int:
        """The local memory that a group needs."""
        tiles = (self.block + self.step) * self.line + self.step * self.width + self.block * self.row
        return (tiles + self.block * ACROSS) * dtype_bytes(dtype)


def fitting_tiles(found: Attention, profile: DeviceProfile, simplify: Simplifier) -> list[TileSizes]:
    """The tiles of *found* that a device can launch, the largest first."""
    depth = int(found.depth.extent)
    column, _ = numbered("column", found.columns, simplify)
    columns = -(-int(_number(column, simplify) or 1) // ACROSS)
    room = min(profile.local_memory, LARGEST_LOCAL)
    if profile.max_group < ACROSS * DOWN:
        return []
    made = [TileSizes(rows, keys, columns, depth) for rows, keys in TILES if rows * columns <= MOST_RESULTS]
    return [t for t in made if t.bytes(found.total.dtype) <= room]


def tile_sizes(found: Attention, profile: DeviceProfile, simplify: Simplifier) -> TileSizes | None:
    """The tiles of *found*; None where the least are too large, or a group of work-items is.

    As many rows a work-item as leave enough groups, and then as many keys as there are.
    """
    fitting = fitting_tiles(found, profile, simplify)
    row, _ = numbered("row", found.rows, simplify)
    batch, _ = numbered("batch", found.batch, simplify)
    count, batches, keys = (_number(a, simplify) for a in (row, batch, found.key))
    if count is not None and batches is not None:
        few = min((t.rows for t in fitting), default=0)
        groups = {t: -(-count // t.block) * batches for t in fitting}
        enough = [t for t in fitting if groups[t] >= ENOUGH_GROUPS * profile.units and t.block < 2 * count]
        fitting = enough or [t for t in fitting if t.rows == few]
    exist = [t for t in fitting if keys is None or t.step < 2 * keys]  # most of its keys
    return next(iter(exist or fitting[-1:]), None)


def attention_space(found: Attention, profile: DeviceProfile, simplify: Simplifier) -> Ranked:
    """Every tile of *found*, the model's first."""
    fitting, expected = fitting_tiles(found, profile, simplify), tile_sizes(found, profile, simplify)
    if expected is None:
        return []
    base, own = roughly(found.stages, profile), fitting.index(expected)
    steps = {t: abs(k - own) for k, t in enumerate(fitting)}
    order = sorted(fitting, key=lambda t: steps[t])
    return [(base * (1 + STEP_PENALTY * steps[t]), Choice.of(KIND, rows=t.rows, keys=t.keys)) for t in order]


def _number(axis: Index, simplify: Simplifier) -> int | None:
    extent = simplify(as_index(axis.extent))
    return int(extent.value) if isinstance(extent, Const) else None
