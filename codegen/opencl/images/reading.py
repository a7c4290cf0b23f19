"""Reading images: in an expression an element at a time, or in a block of statements each texel once.

An image is read by ``read_imagef`` at integer coordinates and without a sampler, which may not lie outside it: where a
condition guards a read that stands before it now, its coordinates are held inside. A component whose number is not
known is chosen by ``texel_component``. Halves that lie in memory as bits come as the numbers that they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.loops import Stmt
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.kernel.spelling import Language
from byoc.codegen.kernel.writer import Names
from byoc.codegen.opencl.device.statements import KernelWriter, OwnText
from byoc.codegen.opencl.images.coordinates import ImageTensors, TexelPlace, texel_place
from byoc.errors import InternalError
from byoc.runtime.opencl.images import CHANNELS, ImageSize
from byoc.te import PrimExpr, Tensor, placeholder
from byoc.te.expr import Cast, Checked, Const, Intrinsic
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes

BITS = "uint16"  # what holds a half where it is no type


class ImageExprWriter(ExprWriter):
    """Expressions whose tensors may be images; ``texels`` are local variables that hold a whole one."""

    def __init__(self, language: Language, names: Names, simplify: Simplifier, images: ImageTensors):
        super().__init__(language, names, simplify)
        self.images = images
        self.texels: set[Tensor] = set()

    def element(self, tensor: Tensor, indices: tuple[PrimExpr, ...]) -> str:
        if tensor in self.texels:
            return self.component(self.names(tensor, tensor.name), self.simplify(indices[0]))
        if tensor not in self.images:
            return super().element(tensor, indices)
        place = texel_place(tensor, indices, self.simplify)
        found = self.component(self.read(tensor, self.text(place.x), self.text(place.y)), place.component)
        if tensor.dtype == BITS:
            return self.call("to_float16", "float32", found)
        return f"((half){found})" if tensor.dtype == "float16" else found

    def has_address(self, tensor: Tensor) -> bool:
        return tensor not in self.images and tensor not in self.texels

    def read(self, tensor: Tensor, x: str, y: str) -> str:
        """The texel at *x* and *y* of an image."""
        return f"read_imagef({self.names(tensor, tensor.name)}, (int2)({x}, {y}))"

    def component(self, texel: str, number: PrimExpr) -> str:
        """Component *number* of the text of a texel."""
        if isinstance(number, Const):
            return f"{texel}.s{int(number.value)}"
        return self.call("texel_component", "float32", texel, self.text(number))


@dataclass(frozen=True, eq=False)
class ReadTexel(OwnText):
    """*texel*, a local of four numbers, is the one of *image* at column *x* of row *y*, or the nearest to there."""

    texel: Tensor
    image: Tensor
    size: ImageSize
    x: PrimExpr
    y: PrimExpr

    def write(self, writer: KernelWriter) -> None:
        exprs = image_writer(writer)
        exprs.texels.add(self.texel)
        x = self._inside(exprs, self.x, self.size.width)
        y = self._inside(exprs, self.y, self.size.height)
        name = exprs.names(self.texel, self.texel.name)
        writer.writer.line(f"const float4 {name} = {exprs.read(self.image, x, y)};")

    def _inside(self, exprs: ImageExprWriter, place: PrimExpr, extent: int) -> str:
        low, high = exprs.simplify.bounds(place)
        text = exprs.text(place)
        return text if low >= 0 and high < extent else f"clamp((int)({text}), 0, {extent - 1})"


def image_writer(writer: KernelWriter) -> ImageExprWriter:
    """The expressions of a writer of kernels with images."""
    if not isinstance(writer.exprs, ImageExprWriter):
        raise InternalError("a statement on images is written by what does not know images")
    return writer.exprs


class TexelReads:
    """What a block of statements reads of images: each texel once, before them."""

    def __init__(self, images: ImageTensors, simplify: Simplifier):
        self.images, self.simplify = images, simplify
        self.statements: list[Stmt] = []
        self._texels: dict[tuple[object, ...], Tensor] = {}

    def of(self, value: PrimExpr) -> PrimExpr:
        """*value* with what it loads of images read before; indices that are data are left where they are."""
        return map_expr(value, self._leaf)

    def _leaf(self, expr: PrimExpr) -> PrimExpr | None:
        if isinstance(expr, Intrinsic) and expr.name == "from_float16":
            (bits,) = expr.args
            return self._component(bits) if isinstance(bits, Load) else None
        found = self._component(expr) if isinstance(expr, Load) else None
        if found is None or expr.dtype == "float32":
            return found
        return Intrinsic("to_float16", [found]) if expr.dtype == BITS else Cast(expr.dtype, found)

    def _component(self, load: Load) -> PrimExpr | None:
        """The number that *load* reads as a component of a texel; None where it is not read before."""
        size = self.images.get(load.tensor)
        nodes = [n for i in load.indices for n in unique_nodes(i)]
        if size is None or any(isinstance(n, Load | Checked) for n in nodes):
            return None
        place = texel_place(load.tensor, load.indices, self.simplify)
        return Load(self._texel(load.tensor, size, place), (place.component,))

    def _texel(self, tensor: Tensor, size: ImageSize, place: TexelPlace) -> Tensor:
        key = (tensor, *(self.simplify.polynomial(p).key() for p in (place.x, place.y)))
        if key not in self._texels:
            made = self._texels[key] = placeholder((CHANNELS,), "float32", f"{tensor.name}_texel")
            self.statements.append(ReadTexel(made, tensor, size, place.x, place.y))
        return self._texels[key]
