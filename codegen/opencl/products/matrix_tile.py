"""The tile that a work-group computes of a product with matrix units, and the microseconds that its steps take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.opencl.products.matrix_format import CHUNK, COLUMNS, ROWS, WARP, MatrixFormat
from byoc.codegen.opencl.products.tile import Pace

_PAD = 4  # words between the lines of lanes in local memory: eight lanes lie in different banks


@dataclass(frozen=True)
class MatrixTile:
    """*rows* by *columns* of a group, divided among *down* by *across* warps of work-items.

    A lane has so many *words* of 32 bits in a step; operands are fetched *ahead* steps before their own. *copied*: they
    go from memory to local memory as they lie, without registers. All numbers but *ahead* are powers of two.
    """

    rows: int
    columns: int
    down: int
    across: int
    words: int
    ahead: int
    format: MatrixFormat
    copied: bool = False

    @property
    def items(self) -> int:
        """The work-items of a group."""
        return WARP * self.down * self.across

    @property
    def points(self) -> int:
        """The terms of a step."""
        return self.words * 32 // self.format.bits

    @property
    def chunks(self) -> int:
        """What a lane has of a step, in chunks of 16 bytes."""
        return self.words // CHUNK

    @property
    def line(self) -> int:
        """The words from one lane to the next in local memory."""
        return self.words if self.copied else self.words + _PAD

    @property
    def sides(self) -> int:
        """The steps whose operands local memory has at the same time: one is read while the others are filled."""
        return self.ahead + 1 if self.copied else 2

    def turned(self, lane: str) -> str:
        """By which number the chunks of a lane are exchanged (exclusive or) where lines have no pad between them.

        Eight neighbouring lanes then have the same chunk in different banks.
        """
        return f"{lane} % 8 / {8 // self.chunks}" if self.chunks < 8 else f"{lane} % 8"

    @property
    def high(self) -> int:
        """The instructions of a warp one below the other."""
        return self.rows // self.down // ROWS

    @property
    def wide(self) -> int:
        """The instructions of a warp side by side: an even number."""
        return self.columns // self.across // COLUMNS

    def local_bytes(self, itemsize: int = 4) -> int:
        """What both operands take, for every side."""
        return self.sides * (self.rows + self.columns) * self.line * 4

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}"

    @property
    def name(self) -> str:
        """What identifies it."""
        return f"{self}x{self.down}x{self.across}w{self.words}{'c' if self.copied else 'a'}{self.ahead}"


# of tf32, and of 16 bits: measured as those of tile.py
# (python -m benchmarks.opencl.tiles --formats tf32,float16 --cold --fit)
_TILES: Sequence[tuple[tuple[int, int, int, int, int, int], Pace, Pace]] = (
    ((128, 128, 2, 2, 16, 2), Pace(0.80, 0.60), Pace(0.90, 0.64)),
    ((128, 64, 2, 2, 16, 2), Pace(0.64, 0.43), Pace(0.79, 0.55)),
    ((64, 128, 2, 2, 16, 2), Pace(0.68, 0.44), Pace(0.87, 0.60)),
    ((64, 64, 2, 2, 32, 2), Pace(0.77, 0.46), Pace(0.93, 0.58)),
    ((64, 64, 2, 2, 32, 4), Pace(0.66, 0.47), Pace(0.85, 0.59)),
    ((64, 32, 2, 2, 32, 2), Pace(0.70, 0.30), Pace(0.80, 0.40)),
    ((64, 32, 2, 2, 32, 4), Pace(0.60, 0.31), Pace(0.76, 0.41)),
    ((32, 64, 2, 2, 32, 4), Pace(0.60, 0.31), Pace(0.83, 0.42)),
    ((32, 32, 2, 2, 32, 4), Pace(0.43, 0.195), Pace(0.66, 0.24)),
    ((64, 16, 2, 1, 32, 4), Pace(0.54, 0.225), Pace(0.60, 0.26)),
    ((16, 64, 1, 2, 32, 2), Pace(0.74, 0.21), Pace(0.83, 0.26)),
    ((16, 32, 1, 1, 32, 4), Pace(0.64, 0.12), Pace(0.80, 0.18)),
)
# of operands that memory has as the units take them, likewise
_COPIED: Sequence[tuple[tuple[int, int, int, int, int, int], Pace, Pace]] = (
    ((128, 128, 2, 2, 16, 2), Pace(0.75, 0.499), Pace(0.75, 0.571)),
    ((128, 64, 2, 2, 32, 1), Pace(0.98, 0.534), Pace(1.12, 0.571)),
    ((64, 128, 2, 2, 32, 1), Pace(0.92, 0.534), Pace(1.05, 0.571)),
    ((64, 64, 2, 1, 32, 1), Pace(0.92, 0.290), Pace(1.05, 0.311)),
    ((64, 64, 2, 2, 32, 2), Pace(0.57, 0.381), Pace(0.65, 0.381)),
    ((64, 32, 2, 2, 32, 2), Pace(0.47, 0.271), Pace(0.57, 0.254)),
    ((64, 32, 2, 2, 32, 3), Pace(0.36, 0.254), Pace(0.41, 0.254)),
    ((32, 64, 2, 2, 32, 2), Pace(0.57, 0.222), Pace(0.70, 0.193)),
    ((32, 32, 2, 1, 32, 3), Pace(0.33, 0.138), Pace(0.44, 0.129)),
    ((16, 64, 1, 2, 32, 3), Pace(0.36, 0.148), Pace(0.47, 0.129)),
    ((64, 16, 2, 1, 32, 3), Pace(0.33, 0.207), Pace(0.38, 0.207)),
)
_SPLIT = 1.7  # by which three products are slower than one


def matrix_tiles(format: MatrixFormat) -> Sequence[tuple[MatrixTile, Pace]]:
    """The tiles of *format*, with what a step of each takes."""
    found = []
    for copied, tiles in ((True, _COPIED), (False, _TILES)):
        for shape, wide, narrow in tiles:
            pace = wide if format.bits == 32 else narrow
            if format.split:
                pace = Pace(_SPLIT * pace.alone, _SPLIT * pace.busy)
            found.append((MatrixTile(*shape, format, copied), pace))
    return found
