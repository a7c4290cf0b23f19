"""The tile that a work-group computes of a product, and the choice among them by a model of the device.

A work-group fills ``rows x columns`` outputs; it goes over the terms in steps of ``points``, for which it holds both
operands in local memory; each work-item keeps ``item_rows x item_columns`` sums in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from byoc.codegen.opencl.profile import DeviceProfile

VECTOR = 4  # elements of local memory that a work-item reads at once
_PAD = 4  # elements between the lines of an operand in local memory, which spreads its columns over the banks


@dataclass(frozen=True)
class Tile:
    """See the module. All are powers of two."""

    rows: int
    columns: int
    points: int
    item_rows: int
    item_columns: int

    @property
    def across(self) -> int:
        """The work-items side by side."""
        return self.columns // self.item_columns

    @property
    def items(self) -> int:
        """The work-items of a group."""
        return self.across * (self.rows // self.item_rows)

    def line(self, lanes: int) -> int:
        """The elements from one term to the next in local memory, for an operand of *lanes*."""
        return lanes + _PAD

    def local_bytes(self, itemsize: int) -> int:
        """What both operands take, twice: one copy is read while the other is filled."""
        return 2 * self.points * (self.line(self.rows) + self.line(self.columns)) * itemsize

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.points}"


# the largest first; what a unit reaches of its peak with one, with enough groups
TILES: Sequence[tuple[Tile, float]] = (
    (Tile(128, 128, 8, 8, 8), 0.80),
    (Tile(64, 128, 8, 8, 8), 0.70),
    (Tile(128, 64, 8, 8, 8), 0.70),
    (Tile(64, 64, 16, 4, 4), 0.50),
    (Tile(32, 64, 16, 4, 4), 0.42),
    (Tile(64, 32, 16, 4, 4), 0.42),
    (Tile(32, 32, 16, 4, 4), 0.32),
    (Tile(16, 64, 16, 4, 4), 0.30),
    (Tile(16, 32, 32, 2, 4), 0.20),
    (Tile(16, 16, 32, 2, 2), 0.12),
)
MOST_PARTS = 32  # that the terms of a sum are divided into
FEWEST_TERMS = 64  # of one part
FEWEST_LANES = 4
FEWEST_OUTPUTS = 64


def is_worth_tiles(sizes: tuple[int, int, int, int]) -> bool:
    """Whether products, rows, columns and terms of these *sizes* share enough operands to be computed by tiles."""
    _, rows, columns, terms = sizes
    return min(rows, columns) >= FEWEST_LANES and rows * columns >= FEWEST_OUTPUTS and terms >= FEWEST_LANES


@dataclass(frozen=True)
class Choice:
    """A tile, and in how many parts, one a work-group, the terms are summed."""

    tile: Tile
    parts: int
    cost: float


def tiles_for(profile: DeviceProfile, itemsize: int) -> Iterator[tuple[Tile, float]]:
    """The tiles that a device can launch, with their efficiency."""
    for tile, speed in TILES:
        if tile.items <= profile.max_group and tile.local_bytes(itemsize) <= profile.local_memory:
            yield tile, speed


def choose(
    sizes: tuple[int, int, int, int], profile: DeviceProfile, itemsize: int = 4, parts: Sequence[int] = (1,)
) -> Choice | None:
    """The cheapest tile for products, rows, columns and terms of these *sizes*; None where no tile is worth it.

    *parts* are the divisions of the terms that are possible.
    """
    found = [
        Choice(tile, part, _cost(sizes, tile, speed, part, profile))
        for tile, speed in tiles_for(profile, itemsize)
        for part in parts
    ]
    return min(found, key=lambda c: c.cost, default=None)


_RATE = 256.0  # multiply-adds of a unit's lanes in one unit of time
_STEP = 4.0  # the time of a step over ``points`` terms whose loads nothing hides
_RESIDENT = 2  # groups of the largest tile that share a unit
_LAUNCH = 600.0  # a second kernel that adds the parts


def _cost(sizes: tuple[int, int, int, int], tile: Tile, speed: float, parts: int, profile: DeviceProfile) -> float:
    """The time of the slowest unit, in an arbitrary unit."""
    batch, rows, columns, terms = sizes
    groups = batch * -(-rows // tile.rows) * -(-columns // tile.columns) * parts
    steps = -(-terms // (parts * tile.points))
    work = tile.rows * tile.columns * tile.points / (_RATE * speed)  # of one step of one group
    waves = -(-groups // profile.units)
    alone = steps * (work + _STEP * 4)
    busy = steps * work * waves
    total = max(busy, alone * -(-waves // _RESIDENT))
    if parts > 1:
        total += _LAUNCH + parts * batch * rows * columns / (profile.units * 64.0)
    return total
