"""How one convolution is done by Winograd's method: sizes of its blocks, chosen once and kept with its stages."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.codegen.c.winograd.transforms import TileGrid
from byoc.te import Dimension

INPUT = "winograd_input"  # the tag of a stage of transformed tiles of the image
WEIGHTS = "winograd_weights"  # the tag of transformed weights
OUTPUT = "winograd"  # the tag of a stage that is computed from these
META = "winograd"  # the key of the plan in the meta of these stages
PAD = 16  # elements after the tiles of one product, so that the products do not meet in one set of a cache


@dataclass(frozen=True)
class WinogradPlan(TileGrid):
    """F(*outputs* x *outputs*, 3 x 3) of an image [*batch*, *height*, *width*] of results, *channels* to *filters*.

    A register tile is *rows* tiles of the image times *vectors* x *lanes* filters; *blocks* of such rows are done
    together. *stored*: all tiles of the image are transformed by a stage of their own before; else those of each block
    where they are used, in a local array. The batch may be a size that is known when the program runs: then all
    register tiles are whole, and rows beyond the last tile of the image have products that nothing reads.
    """

    outputs: int
    batch: Dimension
    height: int
    width: int
    channels: int
    filters: int
    rows: int
    vectors: int
    lanes: int
    blocks: int
    stored: bool

    @property
    def tiles(self) -> Dimension:
        return self.batch * (self.down * self.across)

    @property
    def panel(self) -> int:
        """The filters of one panel of weights."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        return -(-self.filters // self.panel)

    @property
    def together(self) -> int:
        """The tiles of the image that are done together."""
        block, tiles = self.blocks * self.rows, self.tiles
        return min(block, tiles) if isinstance(tiles, int) else block

    @property
    def chunks(self) -> Dimension:
        """How often it is done."""
        block = self.blocks * self.rows
        return (self.tiles + (block - 1)) // block

    @property
    def parts(self) -> Dimension:
        """What a team shares: panels and chunks, or chunks alone, each with the transform of its tiles."""
        return self.panels * self.chunks if self.stored else self.chunks

    @property
    def stored_tiles(self) -> Dimension:
        """The tiles that a stage of its own has room for: whole register tiles where the batch is free."""
        tiles = self.tiles
        return tiles if isinstance(tiles, int) else (tiles + (self.rows - 1)) // self.rows * self.rows

    @property
    def weight_bytes(self) -> int:
        return 4 * self.panels * self.points * self.channels * self.panel

    @property
    def input_bytes(self) -> int:
        """What all transformed tiles of the image take, where the batch is known."""
        return 4 * self.points * (int(self.tiles) * self.channels + PAD)

    @property
    def local_bytes(self) -> int:
        """What the local arrays of one thread take."""
        sums = self.points * self.together * self.panel + self.outputs * self.outputs * self.panel
        inputs = 0 if self.stored else self.points * (self.together * self.channels + PAD)
        return 4 * (sums + inputs)
