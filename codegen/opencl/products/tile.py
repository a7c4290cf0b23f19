"""The tile that a work-group computes of a product, and the choice among them by a model of the device.

A work-group fills ``rows x columns`` outputs; it goes over the terms in steps of ``points``, for which it holds both
operands in local memory; each work-item keeps ``item_rows x item_columns`` sums in registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from byoc.codegen.opencl.device.rates import FITTED, DeviceRates
from byoc.ir.types import dtype_bytes
from byoc.te import Dimension

VECTOR = 4  # elements of local memory that a work-item reads at once
_INDICES = 24  # registers of a work-item that hold places and counts
_PAD = 4  # elements between the lines of an operand in local memory, which spreads its columns over the banks


@dataclass(frozen=True)
class DeviceTile:
    """See the module. All are powers of two but *ahead*: the steps before its own in which an operand is fetched."""

    rows: int
    columns: int
    points: int
    item_rows: int
    item_columns: int
    ahead: int = 1

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
    def registers(self) -> int:
        """The registers of a work-item, roughly: sums, an operand of each side twice, what is fetched, indices."""
        fetched = self.ahead * -(-(self.rows + self.columns) * self.points // self.items)
        return self.item_rows * self.item_columns + 2 * (self.item_rows + self.item_columns) + fetched + _INDICES

    @property
    def name(self) -> str:
        """What identifies it."""
        return f"{self}x{self.item_rows}x{self.item_columns}a{self.ahead}"


@dataclass(frozen=True)
class Pace:
    """Microseconds that a step of a tile takes: *alone* on a unit, and *busy*, its share where units are full.

    *alone* is never the smaller one: where groups do not run side by side the two are the same.
    """

    alone: float
    busy: float


# measured on an H100, 132 units, float32: 32 products and convolutions of real networks, each with every tile and
# nothing in its caches; the tile that the model takes is within 1.03 of the best of 99 in the mean, 1.13 at worst
# (python -m benchmarks.opencl.tiles --formats float32 --ahead 1 2 4 --points 8 16 32 --cold --fit)
TILES: Sequence[tuple[DeviceTile, Pace]] = (
    (DeviceTile(128, 128, 8, 8, 8, 2), Pace(0.85, 0.85)),
    (DeviceTile(128, 64, 16, 8, 8), Pace(1.492, 0.883)),
    (DeviceTile(128, 64, 8, 8, 8, 2), Pace(0.66, 0.465)),
    (DeviceTile(64, 128, 8, 8, 8, 2), Pace(0.70, 0.493)),
    (DeviceTile(64, 64, 16, 8, 4, 2), Pace(0.786, 0.523)),
    (DeviceTile(64, 32, 32, 4, 4, 2), Pace(0.936, 0.699)),
    (DeviceTile(64, 32, 16, 4, 4, 2), Pace(0.587, 0.328)),
    (DeviceTile(32, 64, 16, 4, 4, 2), Pace(0.622, 0.348)),
    (DeviceTile(32, 32, 16, 4, 4, 4), Pace(0.523, 0.194)),
    (DeviceTile(16, 64, 16, 4, 4, 2), Pace(0.66, 0.218)),
    (DeviceTile(16, 32, 32, 2, 4, 2), Pace(0.833, 0.309)),
    (DeviceTile(16, 16, 32, 2, 2, 2), Pace(0.699, 0.194)),
    (DeviceTile(16, 16, 16, 2, 2, 4), Pace(0.391, 0.091)),
)
MOST_PARTS = 32  # that the terms of a sum are divided into
FEWEST_TERMS = 64  # of one part
FEWEST_LANES = 4
FEWEST_OUTPUTS = 64


def is_worth_tiles(sizes: tuple[int, int, int, int]) -> bool:
    """Whether products, rows, columns and terms of these *sizes* share enough operands to be computed by tiles."""
    _, rows, columns, terms = sizes
    return min(rows, columns) >= FEWEST_LANES and rows * columns >= FEWEST_OUTPUTS and terms >= FEWEST_LANES


class Sized(Protocol):
    """A tile of any kind."""

    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def points(self) -> int: ...


_FEW_WAVES = 4  # up to which the last one, however full, takes as long as the others
_SECOND_KERNEL = 4.5  # microseconds, and those of an element of a part that it adds
_PER_PART = 2.6e-6


def cost_of(
    sizes: tuple[int, int, int, int], tile: Sized, pace: Pace, parts: int, units: int, rates: DeviceRates = FITTED
) -> float:
    """Microseconds for products, rows, columns and terms of these *sizes*, on a device of so many *units*.

    *parts* are those in which the terms are summed; *rates* are the device's, without any those of the device that
    paces were measured on.
    """
    batch, rows, columns, terms = sizes
    groups = batch * -(-rows // tile.rows) * -(-columns // tile.columns) * parts
    steps = -(-terms // (parts * tile.points))
    waves = max(groups / units, 1.0)
    waves = math.ceil(waves) if waves <= _FEW_WAVES else waves
    total = steps * max(pace.alone, pace.busy * waves) * rates.computing
    if parts == 1:
        return total
    return total + _SECOND_KERNEL * rates.launching + _PER_PART * rates.moving * parts * batch * rows * columns


def copy_cost(shape: Sequence[Dimension], dtype: str, rates: DeviceRates = FITTED) -> float:
    """Microseconds of one more kernel, which reads and stores a tensor of *shape*, whose sizes are known."""
    share = dtype_bytes(dtype) / 4  # a part is float32, stored and read once
    return _SECOND_KERNEL * rates.launching + _PER_PART * rates.moving * share * math.prod(map(int, shape))
