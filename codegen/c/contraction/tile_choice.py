"""The register tile of a contraction: how many rows and vectors, by a model of what a processor starts in a cycle.

Two multiply-adds and two loads start in a cycle, and a sum waits four cycles for its last term. Registers hold the
sums, one vector for each column of the tile, and one number. Where the processor has matrix registers, they are weighed
in the same cycles (``matrix_products.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from byoc.codegen.c.contraction.matrix_products import matrix_blocks, matrix_product
from byoc.codegen.c.contraction.shape import PANEL, Contraction
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.inline import estimated_size
from byoc.ir.types import dtype_bytes

MOST_ROWS = 14
MOST_SUMS = 21  # more, and GCC keeps some of them in memory
FEWEST_LANES = 4
LATENCY = 4.0
FIRST_CACHE_BYTES = 48 << 10
STREAM = 21.0  # bytes of a panel that come in a cycle from the cache behind the first
SPILLED = 1.05  # what a tile costs more where its panel does not stay in the near cache
CACHE_BYTES = 1 << 20  # of the cache that a core has for itself
CACHE_WAY_BYTES, CACHE_WAYS = 4096, 11  # of the first cache: lines so far apart share these places, less one to stream
CONFLICT = 1.06
START = 24.0  # cycles to begin a tile and to leave it


@dataclass(frozen=True)
class Tile:
    """*rows* x *vectors* sums of *lanes* elements each; *lanes_first*: blocks of lanes are the outer loop.

    *matrix_rows*: how many of the rows one matrix register has; 0 where vectors hold the sums.
    """

    rows: int
    vectors: int
    lanes: int
    lanes_first: bool
    matrix_rows: int = 0

    @property
    def width(self) -> int:
        """The positions along the lane axis that a tile computes."""
        return self.vectors * self.lanes


def choose_tile(c: Contraction, machine: Machine, packed: bool = False) -> Tile | None:
    """The tile that takes the fewest cycles by the model; None where no whole vectors can be read.

    One that was chosen by packing an operand keeps its width; *packed*: it will be packed for the tile.
    """
    cost_and_tile = min(tiles(c, machine, packed), key=lambda pair: pair[0], default=None)
    return None if cost_and_tile is None else cost_and_tile[1]


def tiles(c: Contraction, machine: Machine, packed: bool = False) -> list[tuple[float, Tile]]:
    """Every tile that fits the registers, with the cycles that the model expects, as :func:`choose_tile`."""
    ragged = packed or all(a.load.tensor.tag == PANEL for a in c.moving)
    lanes = lane_count(c, machine, ragged)
    panels = [] if packed else [a.load.tensor for a in c.moving if a.load.tensor.tag == PANEL]
    width = panels[0].shape[-1] if panels else None
    widths = [int(width) // lanes] if width is not None else range(1, 9)
    rows = estimated_size([c.row_count])
    found: list[tuple[float, Tile]] = []
    for vectors in widths:
        if width is None and vectors > 1 and (vectors - 1) * lanes >= int(c.lane.extent):
            break
        if not ragged and int(c.lane.extent) % (vectors * lanes):
            continue
        for height in _heights(c, min(rows, MOST_ROWS)):
            if height > 1 and not _fits(c, height, vectors, machine):
                break
            tile = Tile(height, vectors, lanes, _lanes_first(c, vectors * lanes, height))
            found.append((_cycles(c, height, vectors, lanes, rows), tile))
    return found + _matrix_tiles(c, machine, packed, widths, lanes)


def _heights(c: Contraction, most: int) -> Iterable[int]:
    """The rows that a tile may have: of a free number of rows powers of two, which is what lengths often are."""
    return range(1, most + 1) if isinstance(c.row_count, int) else [h for h in (1, 2, 4, 8) if h <= most]


def _matrix_tiles(
    c: Contraction, machine: Machine, packed: bool, widths: Sequence[int], lanes: int
) -> list[tuple[float, Tile]]:
    """The tiles of those *widths*, in vectors, whose sums matrix registers hold."""
    product = matrix_product(c, machine, packed)
    if product is None or lanes != machine.lanes(dtype_bytes(c.reduce.dtype)):
        return []
    ragged = packed or product.right.load.tensor.tag == PANEL
    extent = int(c.lane.extent)
    fitting = [v for v in widths if (v - 1) * lanes < extent and (ragged or extent % (v * lanes) == 0)]
    return [
        (b.cycles, Tile(rows, b.vectors, lanes, _lanes_first(c, b.vectors * lanes, rows), b.rows))
        for b in matrix_blocks(c, product, fitting)
        for rows in [b.rows * b.matrices]
    ]


def lane_count(c: Contraction, machine: Machine, ragged: bool) -> int:
    """The lanes of a vector: the machine's, or fewer where the axis is shorter or would not be read whole."""
    lanes = machine.lanes(dtype_bytes(c.reduce.dtype))
    extent = int(c.lane.extent)
    while lanes >= 2 * extent or (not ragged and extent % lanes and lanes > FEWEST_LANES):
        lanes //= 2
    return lanes


def _fits(c: Contraction, rows: int, vectors: int, machine: Machine) -> bool:
    return rows * vectors <= MOST_SUMS and rows * vectors + vectors + 1 <= machine.registers


def _cycles(c: Contraction, height: int, vectors: int, lanes: int, rows: int) -> float:
    blocks = math.ceil(int(c.lane.extent) / (vectors * lanes))
    full, rest = divmod(rows, height)
    size = lanes * dtype_bytes(c.reduce.dtype)
    whole = full * _tile_cycles(c, height, vectors, size) + (_tile_cycles(c, rest, vectors, size) if rest else 0.0)
    panel = c.points * vectors * lanes * dtype_bytes(c.reduce.dtype)
    whole *= CONFLICT if _rows_collide(c, height) else 1.0
    return blocks * whole * (SPILLED if panel > CACHE_BYTES // 2 and rows > height else 1.0)


def _rows_collide(c: Contraction, height: int) -> bool:
    """Whether the rows of a tile lie so that the first cache has too few places for a line of each."""
    for access in c.standing:
        step = access.steps[c.row] if c.row is not None else None
        stride = (step or 0) * dtype_bytes(access.load.dtype)
        if stride and height * math.gcd(stride, CACHE_WAY_BYTES) > CACHE_WAYS * CACHE_WAY_BYTES:
            return True
    return False


def _tile_cycles(c: Contraction, height: int, vectors: int, vector_bytes: int) -> float:
    """One tile: its sums, and what it costs to begin and to store it."""
    moving_by_row = sum(1 for a in c.moving if c.row is not None and a.steps[c.row] != 0)
    standing_by_row = sum(1 for a in c.standing if c.row is not None and a.steps[c.row] != 0)
    loads = vectors * ((len(c.moving) - moving_by_row) + moving_by_row * height)
    loads += (len(c.standing) - standing_by_row) + standing_by_row * height
    term = max(height * vectors / 2, loads / 2, LATENCY)
    panel = c.points * vectors * vector_bytes
    if panel > FIRST_CACHE_BYTES // 2:
        term = max(term, len(c.moving) * vectors * vector_bytes / STREAM)
    return c.points * (term + 0.25) + START + height * vectors


def _lanes_first(c: Contraction, width: int, height: int) -> bool:
    """Whether less is read when a block of lanes is kept and the rows run past it, than the other way round."""
    if not c.standing:
        return False
    standing = sum(a.size for a in c.standing) * dtype_bytes(c.reduce.dtype)
    moving = sum(a.size for a in c.moving) * dtype_bytes(c.reduce.dtype)
    shared = estimated_size([a.extent for a in c.shared_batch])
    passes = math.ceil(int(c.lane.extent) / width)
    tiles = shared * math.ceil(estimated_size([c.row_count]) / height)
    lanes_outer = moving + standing * passes * _distance(standing)
    rows_outer = standing + moving * tiles * _distance(moving)
    return lanes_outer <= rows_outer


def _distance(size: int) -> float:
    """What reading *size* bytes again costs, where reading them the first time costs 1."""
    return 0.1 if size <= CACHE_BYTES // 2 else 1.0
