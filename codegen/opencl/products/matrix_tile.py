"""The tile that a work-group computes of a product with matrix units, and the microseconds that its steps take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.opencl.device.statements import LINE_BYTES
from byoc.codegen.opencl.products.matrix_format import CHUNK, COLUMNS, ROWS, WARP, MatrixFormat
from byoc.codegen.opencl.products.tile import Pace

_PAD = 4  # words between the lines of lanes in local memory: eight lanes lie in different banks


@dataclass(frozen=True)
class MatrixTile:
    """*rows* by *columns* of a group, divided among *down* by *across* warps of work-items.

    A lane has so many *words* of 32 bits in a step; operands are fetched *ahead* steps before their own. *copied*: they
    go from memory to local memory as they lie, without registers. *warpgroups*: an instruction is that of four warps,
    one below the other, and reads local memory itself; the warps of such a tile are in one column. All numbers but
    *ahead* are powers of two.
    """

    rows: int
    columns: int
    down: int
    across: int
    words: int
    ahead: int
    format: MatrixFormat
    copied: bool = False
    warpgroups: bool = False

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
        return self.words if self.exchanged else self.words + _PAD

    @property
    def exchanged(self) -> bool:
        """Whether the chunks of a lane change places (:meth:`turned`), so that lines need no pad between them."""
        return self.copied or self.warpgroups

    @property
    def sides(self) -> int:
        """The steps whose operands local memory has at the same time: one is read while the others are filled."""
        return self.ahead + 1 if self.copied else 2

    def turned(self, lane: str) -> str:
        """By which number the chunks of a lane are exchanged (exclusive or) where they are.

        Eight neighbouring lanes then have the same chunk in different banks.
        """
        return f"{lane} % 8 / {8 // self.chunks}" if self.chunks < 8 else f"{lane} % 8"

    @property
    def alignment(self) -> int:
        """Where an operand may begin in local memory, in bytes: eight lines, of what is exchanged."""
        return max(LINE_BYTES, 8 * 4 * self.line) if self.warpgroups else LINE_BYTES

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
        kind = ("g" if self.warpgroups else "") + ("c" if self.copied else "a")
        return f"{self}x{self.down}x{self.across}w{self.words}{kind}{self.ahead}"


# of tf32, and of 16 bits: measured on an H200 as those of tile.py; the tiles that the model takes need 1.015 of the
# time of the best ones in the mean, 1.06 for products that were held out
# (python -m benchmarks.opencl.tiles --formats tf32,float16 --cold --fit)
_TILES: Sequence[tuple[tuple[int, int, int, int, int, int], Pace, Pace]] = (
    ((128, 128, 2, 2, 16, 2), Pace(0.900, 0.728), Pace(1.292, 0.917)),
    ((128, 64, 2, 2, 16, 2), Pace(0.706, 0.453), Pace(0.971, 0.449)),
    ((64, 128, 2, 2, 16, 2), Pace(0.756, 0.466), Pace(0.947, 0.675)),
    ((64, 64, 2, 2, 32, 2), Pace(0.833, 0.504), Pace(0.991, 0.636)),
    ((64, 64, 2, 2, 32, 4), Pace(0.700, 0.519), Pace(0.954, 0.734)),
    ((64, 32, 2, 2, 32, 2), Pace(0.700, 0.336), Pace(0.697, 0.370)),
    ((64, 32, 2, 2, 32, 4), Pace(0.571, 0.336), Pace(0.756, 0.468)),
    ((32, 64, 2, 2, 32, 4), Pace(0.594, 0.346), Pace(0.779, 0.471)),
    ((32, 32, 2, 2, 32, 4), Pace(0.405, 0.238), Pace(0.568, 0.355)),
    ((64, 16, 2, 1, 32, 4), Pace(0.571, 0.249), Pace(0.728, 0.292)),
    ((16, 64, 1, 2, 32, 2), Pace(0.728, 0.239), Pace(0.917, 0.312)),
    ((16, 32, 1, 1, 32, 4), Pace(0.749, 0.148), Pace(0.962, 0.193)),
)
# of operands that memory has as the units take them, likewise
_COPIED: Sequence[tuple[tuple[int, int, int, int, int, int], Pace, Pace]] = (
    ((128, 128, 2, 2, 16, 2), Pace(0.680, 0.448), Pace(0.728, 0.466)),
    ((128, 64, 2, 2, 32, 1), Pace(1.021, 0.534), Pace(1.169, 0.555)),
    ((64, 128, 2, 2, 32, 1), Pace(0.991, 0.534), Pace(1.134, 0.555)),
    ((64, 64, 2, 1, 32, 1), Pace(0.954, 0.302), Pace(1.060, 0.314)),
    ((64, 64, 2, 2, 32, 2), Pace(0.534, 0.356), Pace(0.636, 0.370)),
    ((64, 32, 2, 2, 32, 2), Pace(0.453, 0.254), Pace(0.594, 0.236)),
    ((64, 32, 2, 2, 32, 3), Pace(0.356, 0.254), Pace(0.381, 0.254)),
    ((32, 64, 2, 2, 32, 2), Pace(0.534, 0.215), Pace(0.654, 0.195)),
    ((32, 32, 2, 1, 32, 3), Pace(0.332, 0.139), Pace(0.523, 0.120)),
    ((16, 64, 1, 2, 32, 3), Pace(0.399, 0.114), Pace(0.454, 0.129)),
    ((64, 16, 2, 1, 32, 3), Pace(0.332, 0.168), Pace(0.356, 0.168)),
)
# likewise, with an instruction of four warps: by registers, and of operands that memory has as the units take them
_WARPGROUPS: Sequence[tuple[tuple[int, int, int, int, int, int], Pace, Pace]] = (
    ((128, 128, 8, 1, 16, 2), Pace(0.773, 0.680), Pace(1.021, 1.021)),
    ((128, 64, 8, 1, 16, 2), Pace(0.660, 0.440), Pace(0.749, 0.534)),
    ((64, 128, 4, 1, 16, 2), Pace(0.680, 0.424), Pace(0.991, 0.617)),
    ((64, 64, 4, 1, 32, 1), Pace(1.313, 0.329), Pace(1.298, 0.594)),
    ((64, 64, 4, 1, 32, 2), Pace(0.833, 0.436), Pace(1.021, 0.593)),
    ((64, 32, 4, 1, 32, 2), Pace(0.680, 0.282), Pace(0.892, 0.384)),
)
_WARPGROUPS_COPIED: Sequence[tuple[tuple[int, int, int, int, int, int], Pace, Pace]] = (
    ((128, 128, 8, 1, 16, 2), Pace(0.555, 0.332), Pace(0.686, 0.418)),
    ((128, 64, 8, 1, 16, 3), Pace(0.396, 0.230), Pace(0.471, 0.271)),
    ((64, 128, 4, 1, 16, 3), Pace(0.396, 0.215), Pace(0.471, 0.264)),
    ((64, 128, 4, 1, 32, 1), Pace(0.900, 0.258), Pace(1.050, 0.278)),
    ((64, 64, 4, 1, 32, 2), Pace(0.594, 0.247), Pace(0.700, 0.263)),
    ((64, 32, 4, 1, 32, 3), Pace(0.332, 0.187), Pace(0.476, 0.206)),
)
_SPLIT = 1.7  # by which three products are slower than one


def matrix_tiles(format: MatrixFormat, warpgroups: bool = False) -> Sequence[tuple[MatrixTile, Pace]]:
    """The tiles of *format*, with what a step of each takes; those of *warpgroups* too where a device has them."""
    found = []
    tables = [(_COPIED, True, False), (_TILES, False, False)]
    if warpgroups and not format.split:
        tables = [(_WARPGROUPS_COPIED, True, True), (_WARPGROUPS, False, True), *tables]
    for tiles, copied, together in tables:
        for shape, wide, narrow in tiles:
            pace = wide if format.bits == 32 else narrow
            if format.split:
                pace = Pace(_SPLIT * pace.alone, _SPLIT * pace.busy)
            found.append((MatrixTile(*shape, format, copied, together), pace))
    return found
