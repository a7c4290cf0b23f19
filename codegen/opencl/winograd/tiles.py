"""How one convolution is done by Winograd's method on a GPU: its sizes, and what a tile of the image holds."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.codegen.c.winograd.transforms import TileGrid
from byoc.codegen.opencl.winograd.convolution import ImageConvolution
from byoc.te import PrimExpr, Tensor, all_of, const, if_then_else


@dataclass(frozen=True)
class WinogradTiles(TileGrid):
    """F(*outputs* x *outputs*, 3 x 3) of *batch* images: *channels* to *filters*, *height* x *width* results of each.

    *offsets*: the row and the column of the image that the first tap of the first result reads.
    """

    outputs: int
    batch: int
    channels: int
    filters: int
    height: int
    width: int
    offsets: tuple[int, int]

    @staticmethod
    def of(conv: ImageConvolution, outputs: int) -> WinogradTiles:
        """That of *conv*."""
        batch, filters, height, width = (int(d) for d in conv.stage.shape)
        return WinogradTiles(outputs, batch, int(conv.image.shape[1]), filters, height, width, conv.offsets)

    @property
    def tiles(self) -> int:
        """Those of all images."""
        return self.batch * self.down * self.across

    @property
    def moved(self) -> int:
        """The bytes that both transforms read and write."""
        inside = self.channels * (self.points + self.outputs * self.outputs)
        outside = self.filters * (self.points + self.outputs * self.outputs)
        return 4 * self.tiles * (inside + outside)

    @property
    def largest(self) -> int:
        """The bytes of the larger of the two tensors between the stages."""
        return 4 * self.points * self.tiles * max(self.channels, self.filters)


def pixel(image: Tensor, place: tuple[PrimExpr, PrimExpr, PrimExpr, PrimExpr]) -> PrimExpr:
    """*image* at *place*, 0 outside of it."""
    conditions = []
    for index, extent in zip(place[2:], image.shape[2:], strict=True):
        conditions += [index >= 0, index < extent]
    return if_then_else(all_of(*conditions), image[place], const(0, image.dtype))
