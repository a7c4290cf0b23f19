"""The tile that a work-group computes of a product, and the choice among them by a model of the device.

A work-group fills ``rows x columns`` outputs; it goes over the terms in steps of ``points``, for which it holds both
operands in local memory; each work-item keeps ``item_rows x item_columns`` sums in registers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from byoc.codegen.opencl.device.profile import DeviceProfile

VECTOR = 4  # elements of local memory that a work-item reads at once
_PAD = 4  # elements between the lines of an operand in local memory, which spreads its columns over the banks


@dataclass(frozen=True)
class DeviceTile:
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

    @property
    def name(self) -> str:
        """What tells it from all others."""
        return f"{self}x{self.item_rows}x{self.item_columns}"


@dataclass(frozen=True)
class Pace:
    """Microseconds that a step of a tile takes: *alone* on a unit, and *busy*, its share where units are full."""

    alone: float
    busy: float


# measured on an H200, 132 units, float32: 23 products and convolutions of real networks, each with every tile; the
# tile that the model takes is within 1.08 of the best in the geometric mean, 1.3 at worst
TILES: Sequence[tuple[DeviceTile, Pace]] = (
    (DeviceTile(128, 128, 16, 8, 8), Pace(1.00, 1.600)),
    (DeviceTile(128, 64, 8, 8, 8), Pace(0.55, 0.463)),
    (DeviceTile(64, 128, 8, 8, 8), Pace(0.60, 0.507)),
    (DeviceTile(64, 64, 16, 8, 8), Pace(1.29, 0.555)),
    (DeviceTile(64, 64, 8, 8, 4), Pace(0.38, 0.296)),
    (DeviceTile(64, 32, 16, 4, 4), Pace(0.45, 0.354)),
    (DeviceTile(32, 64, 16, 4, 4), Pace(0.50, 0.354)),
    (DeviceTile(32, 32, 32, 4, 4), Pace(0.88, 0.424)),
    (DeviceTile(16, 64, 16, 4, 4), Pace(0.66, 0.247)),
    (DeviceTile(16, 32, 32, 2, 4), Pace(0.73, 0.324)),
    (DeviceTile(16, 16, 32, 2, 2), Pace(0.60, 0.207)),
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
class TileChoice:
    """A tile, and in how many parts, one a work-group, the terms are summed."""

    tile: DeviceTile
    parts: int
    cost: float


def tiles_for(profile: DeviceProfile, itemsize: int) -> Iterator[tuple[DeviceTile, Pace]]:
    """The tiles that a device can launch."""
    for tile, pace in TILES:
        if tile.items <= profile.max_group and tile.local_bytes(itemsize) <= profile.local_memory:
            yield tile, pace


def choose(
    sizes: tuple[int, int, int, int], profile: DeviceProfile, itemsize: int = 4, parts: Sequence[int] = (1,)
) -> TileChoice | None:
    """The cheapest tile for products, rows, columns and terms of these *sizes*; None where the device takes no tile.

    *parts* are the divisions of the terms that are possible.
    """
    return next(iter(ranked(sizes, profile, itemsize, parts)), None)


def ranked(
    sizes: tuple[int, int, int, int], profile: DeviceProfile, itemsize: int = 4, parts: Sequence[int] = (1,)
) -> list[TileChoice]:
    """Every tile in every number of *parts*, the cheapest first; as :func:`choose`."""
    found = [
        TileChoice(tile, part, _cost(sizes, tile, pace, part, profile))
        for tile, pace in tiles_for(profile, itemsize)
        for part in parts
    ]
    return sorted(found, key=lambda c: c.cost)


_FEW_WAVES = 4  # up to which the last one, however full, takes as long as the others
_SECOND_KERNEL = 4.5  # microseconds, and those of an element of a part that it adds
_PER_PART = 2.6e-6


def _cost(sizes: tuple[int, int, int, int], tile: DeviceTile, pace: Pace, parts: int, profile: DeviceProfile) -> float:
    """Microseconds, on the device that paces were measured on."""
    batch, rows, columns, terms = sizes
    groups = batch * -(-rows // tile.rows) * -(-columns // tile.columns) * parts
    steps = -(-terms // (parts * tile.points))
    waves = max(groups / profile.units, 1.0)
    waves = math.ceil(waves) if waves <= _FEW_WAVES else waves
    total = steps * max(pace.alone, pace.busy * waves)
    return total if parts == 1 else total + _SECOND_KERNEL + _PER_PART * parts * batch * rows * columns
