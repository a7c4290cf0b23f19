"""Where a packed operand has its terms: the left one by registers of work-items, the right one by lines of tiles.

A step is 128 bytes of each lane, a block 128 lanes. The left operand has, for sixteen lanes and one step, what each of
the 32 work-items of a warp hold for four instructions: 16 bytes in the order of an instruction's registers, so that
one load is ready to be multiplied. The right one has a block's lines for one step as they stand in local memory, their
chunks of 16 bytes exchanged as ``MatrixTile.turned`` says: one copy takes the whole. Beyond the last lane and the last
term there are zeros. Source: PTX ISA 8.0, the registers of ``wgmma`` and ``mma.sync``, the 128-byte swizzle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.codegen.kernel.simplify import as_index
from byoc.codegen.opencl.products.matrix_format import CHUNK, ROWS, WARP
from byoc.te import Index, PrimExpr, binary

BLOCK = 128  # lanes
WORDS = 32  # of 32 bits, of a lane in a step
INSTRUCTIONS = 4  # of a step
CHUNKS = WORDS // CHUNK
LEFT_WORDS = ROWS * WORDS  # of a step of sixteen lanes
RIGHT_WORDS = BLOCK * WORDS  # of a step of a block


@dataclass(frozen=True)
class PackedLayout(ABC):
    """An operand of so many *lanes* and *terms*, of which a word of 32 bits has *per_word*."""

    lanes: int
    terms: int
    per_word: int

    @property
    def points(self) -> int:
        """The terms of a step."""
        return WORDS * self.per_word

    @property
    def steps(self) -> int:
        """The steps that cover the terms."""
        return -(-self.terms // self.points)

    @property
    def blocks(self) -> int:
        """The blocks that cover the lanes."""
        return -(-self.lanes // BLOCK)

    @property
    def is_whole(self) -> bool:
        """Whether nothing lies beyond the last lane and the last term."""
        return self.lanes % BLOCK == 0 and self.terms % self.points == 0

    def padded(self, array: np.ndarray) -> np.ndarray:
        """*array*, ``[lanes, terms]``, with zeros beyond."""
        beyond = (0, self.blocks * BLOCK - self.lanes), (0, self.steps * self.points - self.terms)
        return np.pad(array, beyond) if any(b for _, b in beyond) else array

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of the packed tensor."""

    @abstractmethod
    def source(self, axes: Sequence[PrimExpr]) -> tuple[PrimExpr, PrimExpr]:
        """The lane and the term that stand at *axes*."""

    @abstractmethod
    def place(self, lane: PrimExpr, term: PrimExpr) -> tuple[PrimExpr, ...]:
        """The indices at which a lane's term stands."""

    @abstractmethod
    def packed(self, array: np.ndarray) -> np.ndarray:
        """*array*, ``[lanes, terms]``, packed."""


class LeftLayout(PackedLayout):
    """``[sixteens of lanes, steps, instructions, work-items, registers, terms of a word]``."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.blocks * (BLOCK // ROWS), self.steps, INSTRUCTIONS, WARP, 4, self.per_word

    def source(self, axes: Sequence[PrimExpr]) -> tuple[PrimExpr, PrimExpr]:
        sixteen, step, instruction, item, register, half = axes
        lane = sixteen * ROWS + item // 4 + register % 2 * 8
        word = step * WORDS + instruction * 8 + item % 4 + register // 2 * 4
        return lane, word * self.per_word + half

    def place(self, lane: PrimExpr, term: PrimExpr) -> tuple[PrimExpr, ...]:
        word = term // self.per_word
        item = lane % 8 * 4 + word % 4
        register = word % 8 // 4 * 2 + lane % ROWS // 8
        return lane // ROWS, word // WORDS, word % WORDS // 8, item, register, term % self.per_word

    def packed(self, array: np.ndarray) -> np.ndarray:
        parts = self.padded(array).reshape(-1, 2, 8, self.steps, INSTRUCTIONS, 2, 4, self.per_word)
        return np.asarray(parts.transpose(0, 3, 4, 2, 6, 5, 1, 7), order="C").reshape(self.shape)


class RightLayout(PackedLayout):
    """``[blocks, steps, lanes of a block, chunks, terms of a chunk]``."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.blocks, self.steps, BLOCK, CHUNKS, CHUNK * self.per_word

    def source(self, axes: Sequence[PrimExpr]) -> tuple[PrimExpr, PrimExpr]:
        block, step, line, chunk, point = axes
        own = binary("bit_xor", chunk, line % CHUNKS)
        return block * BLOCK + line, (step * CHUNKS + own) * (CHUNK * self.per_word) + point

    def place(self, lane: PrimExpr, term: PrimExpr) -> tuple[PrimExpr, ...]:
        size = CHUNK * self.per_word
        chunk = binary("bit_xor", term // size % CHUNKS, lane % CHUNKS)
        return lane // BLOCK, term // self.points, lane % BLOCK, chunk, term % size

    def packed(self, array: np.ndarray) -> np.ndarray:
        parts = self.padded(array).reshape(self.blocks, BLOCK, self.steps, CHUNKS, CHUNK * self.per_word)
        lines, chunks = np.arange(BLOCK)[:, None], np.arange(CHUNKS)
        return np.asarray(parts.transpose(0, 2, 1, 3, 4)[:, :, lines, chunks ^ lines % CHUNKS], order="C")


def inside(layout: PackedLayout, lane: PrimExpr, term: PrimExpr) -> PrimExpr | None:
    """Whether there is such a lane and term; None where there is no other."""
    conditions = []
    if layout.lanes % BLOCK:
        conditions.append(binary("lt", lane, as_index(layout.lanes)))
    if layout.terms % layout.points:
        conditions.append(binary("lt", term, as_index(layout.terms)))
    if len(conditions) == 2:
        return binary("and", *conditions)
    return conditions[0] if conditions else None


def axes_of(layout: PackedLayout) -> tuple[Index, ...]:
    """Axes over the packed tensor."""
    return tuple(Index(f"p{k}", extent) for k, extent in enumerate(layout.shape))
