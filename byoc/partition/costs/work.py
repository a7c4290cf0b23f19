"""What a call has to do, whatever does it: its kind, operations, bytes, and for products the sizes of the matrices.

The kind follows from the operator's traits, from how it may be fused and from its count of operations. Dynamic
dimensions count as 1.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.ir.op import Op, OpPattern
from byoc.ir.traits import ProductForm
from byoc.ir.types import TensorType, Type, dtype_bytes, tensor_types
from byoc.relay.expr import Call, Constant
from byoc.relay.narrowing import operator_of
from byoc.relay.op.nn.convolution.geometry import Geometry, conv_geometry, size_of, transposed_geometry
from byoc.relay.transform.base.fusion_graph import OPAQUE, call_pattern

# What calls, tensors and constants cost: operations and bytes. A dynamic dimension counts as 1 and is marked.


@dataclass(frozen=True)
class Boundary:
    """A tensor that crosses the border of a region: its name, dtype, shape (as text where dynamic) and bytes."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    bytes: int
    dynamic: bool


def boundaries(name: str, ty: Type) -> list[Boundary]:
    """The tensors of *ty*, tuples flattened."""
    tensors = tensor_types(ty)
    names = [name] if len(tensors) == 1 else [f"{name}.{k}" for k in range(len(tensors))]
    return [boundary(n, t) for n, t in zip(names, tensors, strict=True)]


def boundary(name: str, ty: TensorType) -> Boundary:
    """One tensor of *ty*. Strings count no bytes."""
    size = 0 if ty.dtype == "string" else dtype_bytes(ty.dtype)
    for dim in ty.shape:
        size *= dim if isinstance(dim, int) else 1
    shape = tuple(d if isinstance(d, int) else repr(d) for d in ty.shape)
    return Boundary(name, ty.dtype, shape, size, not ty.is_static)


def call_operations(call: Call) -> int:
    """The operations of the call of an operator, 0 for another."""
    if not isinstance(call.op, Op):
        return 0
    return call.op.cost(call.attrs, [a.checked_type for a in call.args], call.checked_type).operations


def constant_bytes(constant: Constant) -> int:
    """The bytes of a constant."""
    return sum(b.bytes for b in boundaries("", constant.checked_type))


class WorkKind(enum.Enum):
    """Kinds of work that run at different speeds."""

    VIEW = "view"  # the same bytes under another shape: nothing to do
    MOVE = "move"  # elements are copied to other positions
    POINTWISE = "pointwise"  # each element by itself
    REDUCTION = "reduction"  # many elements to one
    ROWS = "rows"  # several passes over rows that stay in the cache: softmax, norms
    WINDOW = "window"  # pools
    DEPTHWISE = "depthwise"  # a convolution of each channel by itself
    PRODUCT = "product"  # sums of products: matrices, convolutions
    LIBRARY = "library"  # no code is generated: a numpy kernel


@dataclass(frozen=True)
class ProductWork:
    """*batch* products of a matrix [rows, depth] by one [depth, columns].

    *tiles* are the extents of the pixels of a 3x3 convolution that steps by one, (images, height, width), for which
    Winograd's method is possible; else None. *convolution* is False for matrices as such.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    tiles: tuple[int, int, int] | None = None
    convolution: bool = False

    @property
    def multiply_adds(self) -> int:
        """Of the whole."""
        return self.batch * self.rows * self.columns * self.depth


@dataclass(frozen=True)
class Work:
    """A call's work. *elements* are the points at which something is done; *cheap* and *costly* the steps of each:
    arithmetic, and functions such as ``exp``. *product* is given for ``PRODUCT`` and ``DEPTHWISE``.
    """

    kind: WorkKind
    elements: int
    cheap: float = 0.0
    costly: float = 0.0
    product: ProductWork | None = None

    @property
    def operations(self) -> float:
        """All steps, a multiply-add as two."""
        sums = 2 * self.product.multiply_adds if self.product is not None else 0
        return sums + self.elements * (self.cheap + self.costly)


_MATRICES = (ProductForm.DENSE, ProductForm.PACKED_DENSE, ProductForm.MATRICES)
_BY_PATTERN = {
    OpPattern.ELEMWISE: WorkKind.POINTWISE,
    OpPattern.BROADCAST: WorkKind.POINTWISE,
    OpPattern.INJECTIVE: WorkKind.MOVE,
    OpPattern.COMM_REDUCE: WorkKind.REDUCTION,
}
_FEW = 4  # operations for each element read above which a sum is a product
_STEPS_OF_OPAQUE = 4.0
_STEPS_OF_QUANTIZED = 6.0


def work_of(call: Call) -> Work:
    """What the typed *call* of an operator has to do."""
    op = operator_of(call)
    traits = op.traits
    elements = count(call.checked_type)
    unknown = call_pattern(call) == OPAQUE and op.pattern != OpPattern.OPAQUE
    if not traits.quantized and (op.compute is None or unknown):
        return Work(WorkKind.LIBRARY, max(elements, read_elements(call)), _STEPS_OF_OPAQUE)
    if traits.is_view:
        return Work(WorkKind.VIEW, elements)
    product = product_of(call)
    if product is not None:
        return Work(WorkKind.DEPTHWISE if is_depthwise(product) else WorkKind.PRODUCT, elements, product=product)
    if traits.quantized:  # lowered before code is generated
        return Work(WorkKind.POINTWISE, elements, _STEPS_OF_QUANTIZED, traits.costly)
    if traits.passes:
        return Work(WorkKind.ROWS, read_elements(call, 1), traits.passes, traits.costly)
    return _by_pattern(call, elements, traits.costly)


def _by_pattern(call: Call, elements: int, costly: float) -> Work:
    """The work of what traits say too little of: from how its operator is fused and from its operations."""
    pattern = OpPattern(int(operator_of(call).get_attr("TOpPattern")))
    operations = call_operations(call)
    kind = _BY_PATTERN.get(pattern, WorkKind.WINDOW)
    if kind is WorkKind.MOVE:
        return Work(WorkKind.MOVE, elements, 1.0 if is_strided(call) else 0.05, costly)
    if kind is WorkKind.POINTWISE:
        return Work(kind, elements, max(1.0, operations / max(elements, 1)), costly)
    if kind is WorkKind.REDUCTION:
        return Work(kind, read_elements(call, 1), max(1.0, operations / max(read_elements(call, 1), 1)), costly)
    return Work(kind, elements, max(1.0, operations / max(elements, 1)), costly)


def is_strided(call: Call) -> bool:
    """True where neighbours in the result are none in the data: a transpose of the last axis, a change of layout."""
    axes = getattr(call.attrs, "axes", None)
    order = [int(a) % len(axes) for a in axes] if axes else []
    return bool(order) and order[-1] != len(order) - 1


def is_depthwise(product: ProductWork) -> bool:
    """True where each result sees one channel: nothing is shared between columns."""
    return product.batch > 1 and product.columns <= 2 and product.tiles is None and product.rows > 1 < product.depth


def product_of(call: Call) -> ProductWork | None:
    """The matrices of a call that is a sum of products; None for another."""
    form, types = operator_of(call).traits.product, [a.checked_type for a in call.args]
    if form is ProductForm.CONVOLUTION:
        return _convolution(conv_geometry(types, call.attrs, len(call.attrs.strides)))
    if form is ProductForm.TRANSPOSED_CONVOLUTION:
        found = transposed_geometry(types, call.attrs, len(call.attrs.strides))
        taps = size_of(found.kernel)
        return ProductWork(
            found.groups,
            size_of((found.batch, *found.sizes)),
            size_of((found.out,)) // found.groups * taps,
            size_of((found.reduced,)),
            convolution=True,
        )
    if form in _MATRICES:
        return _matrices(call)
    return _by_operations(call)


def _convolution(sizes: Geometry) -> ProductWork:
    rows = size_of((sizes.batch, *sizes.out_sizes))
    square = len(sizes.kernel) == 2 and sizes.kernel == (3, 3) and set(sizes.strides) == set(sizes.dilation) == {1}
    tiles = None
    if square and sizes.groups == 1:
        height, width = sizes.out_sizes
        tiles = (size_of((sizes.batch,)), size_of((height,)), size_of((width,)))
    depth = size_of((sizes.reduced, *sizes.kernel))
    return ProductWork(sizes.groups, rows, size_of((sizes.out,)) // sizes.groups, depth, tiles, True)


def _matrices(call: Call) -> ProductWork:
    """A dense layer or a product of matrices: leading axes of the left are rows, of both are batches."""
    shape, left, right = (_shape(ty) for ty in (call.checked_type, *(a.checked_type for a in call.args[:2])))
    batch = max(math.prod(shape[:-2]) if len(right) == 3 == len(shape) else 1, 1)
    rows = max(math.prod(shape[:-1]) // batch, 1)
    depth = math.prod(left[-2:]) // max(shape[-2], 1) if len(left) > 1 else left[-1]
    return ProductWork(batch, rows, shape[-1], max(depth, 1))


def _by_operations(call: Call) -> ProductWork | None:
    """A heavy operator that no rule names, if it counts many operations for each element that it reads or writes."""
    if int(operator_of(call).get_attr("TOpPattern")) != OpPattern.OUT_ELEMWISE_FUSABLE or len(call.args) < 2:
        return None
    elements = max(count(call.checked_type), 1)
    multiply_adds = call_operations(call) // 2
    if multiply_adds < _FEW * max(elements, read_elements(call)):
        return None
    side = max(math.isqrt(elements), 1)
    return ProductWork(1, side, max(elements // side, 1), max(multiply_adds // elements, 1))


def count(ty: Type) -> int:
    """The elements of all tensors of a type."""
    return sum(math.prod(_shape(t)) for t in tensor_types(ty))


def size(ty: Type) -> int:
    """The bytes of all tensors of a type; strings count none."""
    return sum(math.prod(_shape(t)) * dtype_bytes(t.dtype) for t in tensor_types(ty) if t.dtype != "string")


def read_elements(call: Call, inputs: int | None = None) -> int:
    """The elements of the first *inputs* arguments (all by default)."""
    return sum(count(a.checked_type) for a in call.args[:inputs])


def _shape(ty: Type) -> Sequence[int]:
    assert isinstance(ty, TensorType)
    return [d if isinstance(d, int) else 1 for d in ty.shape]
