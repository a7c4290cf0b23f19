"""Traits: what an operator is, declared once where it is registered, for whoever wants to know.

A pass, a backend or a cost model asks ``op.traits`` instead of keeping a list of operators' names, so that an operator
that is registered tomorrow is known to all of them. What a trait says holds for every call of the operator, whatever
its attributes; a rule about one operator alone stays where it is used. An operator that declares nothing has the traits
that follow from its fusion pattern (``byoc.ir.op.OpPattern``).
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace


class OpKind(enum.Enum):
    """How elements of a result come from those of the operands."""

    POINTWISE = "pointwise"  # each from those at its own place; operands are broadcast
    VIEW = "view"  # all elements of operand 0 in their order, under another shape
    MOVE = "move"  # each is an element of an operand, whatever the elements hold
    CREATION = "creation"  # made from shapes and attributes, without looking at elements
    REDUCTION = "reduction"  # many elements along axes to one
    WINDOW = "window"  # neighbours to one: pools
    ROWS = "rows"  # each from all elements of its row, which lies along the attribute ``axis``: softmax, layer norm
    NORM = "norm"  # each from many elements, along several axes or around it
    PRODUCT = "product"  # sums of products: matrices, convolutions
    SEQUENCE = "sequence"  # whole tensors put into sequences, or taken out of them
    OTHER = "other"


class ProductForm(enum.Enum):
    """Which product an operator computes, of its operands 0, the data, and 1, the weights."""

    CONVOLUTION = "convolution"
    TRANSPOSED_CONVOLUTION = "transposed convolution"
    DENSE = "dense"  # data[..., depth] and weights[columns, depth]
    PACKED_DENSE = "packed dense"  # the same, with the weights in blocks of columns
    MATRICES = "matrices"  # each operand is transposed where an attribute says so
    OTHER = "other"


class Conversion(enum.IntEnum):
    """What mixed precision makes of the calls of an operator."""

    ALWAYS = 0  # computed in the lower precision: much is gained and little is lost
    FOLLOW = 1  # as the operands are
    NEVER = 2  # results leave the range of half precision, or sum much


class Scaling(enum.Enum):
    """What becomes of a scale, a positive number for each channel, that stands before or behind an operator."""

    STOPS = "stops"  # or nobody has said how it would pass
    PASSES = "passes"  # f(s x) is s f(x), of one operand
    SUM = "sum"  # passes where every term is scaled: s x + s b is s (x + b)
    FACTOR = "factor"  # the operator scales: x s, or x / s
    WEIGHTS = "weights"  # the weights take it up: product(s x, w) is product(x, s w), and so for results


class Sensitivity(enum.Enum):
    """How a result depends on an operand, where rounding that may give more than a rounded result.

    STEP: it jumps, as that of ``floor`` does. EDGE: it has no bound, or is no number, where a number that is rounded
    by a part of the largest one may come to lie, as a quotient by 0.
    """

    STEP = "step"
    EDGE = "edge"


STEP, EDGE = Sensitivity


class LayoutFlow(enum.Enum):
    """How layouts pass through an operator, where neither its kind nor the layouts that its attributes name say it."""

    UPSAMPLED = "upsampled"  # any whose spatial axes stay in their places
    RESIZED = "resized"  # any of as many axes
    REGIONS = "regions"  # the data as its attribute says; the rows of numbers that say where to look stay as they are
    SCALED = "scaled"  # whole axes, along one of which scales and zero points lie
    JOINED = "joined"  # all tensors of a tuple in one, along an axis


@dataclass(frozen=True)
class StaticForm:
    """The operator that computes the same of operands that are known when compiling.

    Attributes:
        name: the static operator.
        attributes: the operands that become its attributes, by place.
        scalars: those of the attributes that are one number.
    """

    name: str
    attributes: Mapping[int, str]
    scalars: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LeadingForm:
    """The operator that gives the same elements at the front of tensors whose sizes its operands say.

    Attributes:
        name: the operator, which gives the shape of its results behind them.
        axis: the attribute that says along which axis elements say the size; it is axis 0 without one.
    """

    name: str
    axis: str = ""


@dataclass(frozen=True)
class Traits:
    """What an operator is.

    Attributes:
        kind: how a result comes from the operands.
        carries: the operands (tuples are one operand) of whose elements the result is made, unchanged; other operands
            say where they go. () where elements are computed.
        chooses: the elements of *carries* that the result has are chosen by comparing them (pools by the greatest),
            so that functions which keep the order of numbers may be applied before or behind; where there is none
            to choose, the result has the least number of its dtype.
        names_axes: an attribute, ``axis`` or ``axes``, names axes of operand 0, so that a call over permuted axes
            needs other attributes; found from the class of attributes when an operator is registered.
        inserts_axis: the attribute ``axis`` is a place before, between or behind the axes of operand 0, where new ones
            come: there is one place more than axes, and a negative one counts from behind the last axis.
        fill: of kind CREATION, the number that every element is.
        product: of kind PRODUCT, which one.
        quantized: operands are integers that stand for numbers by scales and zero points among the operands.
        precision: what mixed precision does; None where nobody has decided.
        scaling: what becomes of a scale for each channel.
        costly: functions as costly as ``exp`` for each element; arithmetic is counted by the operation count.
        passes: of the kinds ROWS and NORM, how often each element is looked at.
        sensitive: the operands that are sensitive to rounding.
        idempotent: of one operand, f(f(x)) is f(x).
        either_order: patterns find the two operands in either order, as Relay's do for sums and products.
        activation: of kind POINTWISE and of one operand, what networks put behind a product or its bias.
        repeats: of kind MOVE, the elements of operand 0 and copies of them: a result of its shape is the operand.
        permutes: of kind MOVE, each element of operand 0 once, its axes in another order, whole or in blocks.
        ranks: the result says where elements of operand 0 stand among each other, by comparing them alone: any function
            that grows, strictly, may be applied to them before.
        value_operand: of kind CREATION, the operand whose one number every element is.
        gives_shape: of kind CREATION, the result is the shape of operand 0.
        host_operands: the operands that are read on the host, wherever the others and the result are: sizes, offsets.
        finds_sizes: it looks at axes, bounds or lengths that a run is given, so that sizes of its result, or of what it
            is made for, come to light; the driver compiles what follows apart, over sizes that it gives names.
        leading_form: of an operator whose operands' elements say a size of its result, what gives the same at the front
            of tensors of known sizes.
        fast_form: the operator of the same operands and attributes that gives about the same in less time.
        static_form: of an operator whose operands say a shape, axes or bounds, what it is where they are known.
        any_layout: it computes the same in each layout that its attributes may name, and ConvertLayout chooses one.
        kernel_layouts: of a convolution, for each layout of the data the layouts of kernels that go with it, of plain
            ones and of those with one input channel for each group.
        layout_flow: how layouts pass, where nothing else says it.
        takes_blocks: the layouts that its attributes name may have blocks (``NCHW16c``); it then means what it means on
            tensors without them.
        zero_of_data: of a quantized operator whose result has a type of its own, the operand that is the zero point of
            operand 0; both move together into another type of integers.
        zero_of_result: of a quantized operator whose attribute ``out_dtype`` is the type of its result, the operand
            that is the zero point of the result; both move together.
    """

    kind: OpKind
    carries: tuple[int, ...] = ()
    chooses: bool = False
    names_axes: bool = False
    inserts_axis: bool = False
    fill: int | None = None
    product: ProductForm | None = None
    quantized: bool = False
    precision: Conversion | None = None
    scaling: Scaling = Scaling.STOPS
    costly: float = 0.0
    passes: float = 0.0
    sensitive: Mapping[int, Sensitivity] = field(default_factory=dict)
    idempotent: bool = False
    either_order: bool = False
    activation: bool = False
    repeats: bool = False
    permutes: bool = False
    ranks: bool = False
    value_operand: int | None = None
    gives_shape: bool = False
    host_operands: tuple[int, ...] = ()
    finds_sizes: bool = False
    leading_form: LeadingForm | None = None
    fast_form: str | None = None
    static_form: StaticForm | None = None
    any_layout: bool = False
    kernel_layouts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    layout_flow: LayoutFlow | None = None
    takes_blocks: bool = False
    zero_of_data: int | None = None
    zero_of_result: int | None = None

    @property
    def is_pointwise(self) -> bool:
        """Each element from those at its own place, wherever that is: no attribute names an axis."""
        return self.kind is OpKind.POINTWISE and not self.names_axes and not self.quantized

    @property
    def only_moves(self) -> bool:
        """The result has elements of operands alone, at places that do not depend on the elements."""
        return bool(self.carries) and not self.chooses

    @property
    def is_view(self) -> bool:
        """The same elements in the same order under another shape: nothing has to be done."""
        return self.kind is OpKind.VIEW

    def static(self, name: str, attributes: Mapping[int, str], scalars: Iterable[str] = ()) -> Traits:
        """These traits, of an operator that has the :class:`StaticForm` given."""
        return replace(self, static_form=StaticForm(name, attributes, frozenset(scalars)))


# pointwise(costly=1.0): the traits of a function of elements at one place
pointwise = functools.partial(Traits, OpKind.POINTWISE)

POINTWISE = pointwise()
# what gives its operand as it is: a copy, an annotation
SAME = Traits(OpKind.POINTWISE, carries=(0,), precision=Conversion.FOLLOW, scaling=Scaling.PASSES)


def view() -> Traits:
    """The traits of a view of operand 0, such as a reshape."""
    return Traits(OpKind.VIEW, (0,), precision=Conversion.FOLLOW)


def move(*carries: int, repeats: bool = False, permutes: bool = False) -> Traits:
    """The traits of an operator that moves elements of the operands *carries* (0 by default) and computes none."""
    return Traits(OpKind.MOVE, carries or (0,), precision=Conversion.FOLLOW, repeats=repeats, permutes=permutes)


def creation(
    precision: Conversion | None = Conversion.FOLLOW,
    fill: int | None = None,
    value_operand: int | None = None,
    gives_shape: bool = False,
) -> Traits:
    """The traits of an operator that makes elements from shapes and attributes, each of them *fill* where given."""
    return Traits(OpKind.CREATION, precision=precision, fill=fill, value_operand=value_operand, gives_shape=gives_shape)


def product(form: ProductForm) -> Traits:
    """The traits of a product of floats, which gains by lower precision and whose weights take up scales."""
    return Traits(OpKind.PRODUCT, product=form, precision=Conversion.ALWAYS, scaling=Scaling.WEIGHTS)


def same_kernels(layouts: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """``kernel_layouts`` where plain kernels and those of one input channel lie alike: one for each data layout."""
    return {data: (kernel, kernel) for data, kernel in layouts.items()}


def convolution(
    kernel_layouts: Mapping[str, tuple[str, str]], form: ProductForm = ProductForm.CONVOLUTION, quantized: bool = False
) -> Traits:
    """The traits of a convolution of floats, or *quantized*, whose layouts ConvertLayout chooses."""
    plain = quantized_product(form) if quantized else replace(product(form), takes_blocks=True)
    return replace(plain, any_layout=True, kernel_layouts=kernel_layouts)


def quantized_product(form: ProductForm) -> Traits:
    """The traits of a product of quantized operands, which are followed by their zero points."""
    return Traits(OpKind.PRODUCT, product=form, quantized=True, zero_of_data=2)
