"""What makes a model slow on an accelerator of its planned kind, as rules over its operators.

A rule looks at the traits of operators and at shapes; each says what would be better. Free sizes are not looked at.
Source: the advice for GPUs in the guides of Paddle Lite and MNN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.traits import OpKind, ProductForm, Traits
from byoc.ir.types import TensorType, tensor_types
from byoc.partition.calls import calls_of, functions_of, inner_calls
from byoc.partition.content.region_measures import PlannedRegion
from byoc.partition.costs import AnalyticModel
from byoc.partition.costs.analytic import registered_profile
from byoc.partition.plan.plan import Plan
from byoc.relay.expr import Call, Constant

LARGE_KERNEL = 5
LANES = 4  # channels that a GPU holds in one vector
IMAGE_CHANNELS = 4  # of a picture: the first layer has as many as it has
MANY_CHANNELS = 256
MANY_RESULTS = 65_536
SHOWN = 6  # nodes in a line
POINTWISE_SHARE, MOVING_SHARE = 0.5, 0.2  # of a model's operators


@dataclass(frozen=True)
class Advice:
    """What a rule, by its *code*, found: at which ONNX *nodes* (operators where they have no name), and what to do."""

    code: str
    text: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        more = f" and {len(self.nodes) - SHOWN} more" if len(self.nodes) > SHOWN else ""
        return f"{self.text} [{self.code}]: {', '.join(self.nodes[:SHOWN])}{more}"


@dataclass(frozen=True)
class AdviceRule:
    """``applies`` to a call; it is given where more than *share* of the operators are such."""

    code: str
    text: str
    applies: Callable[[Call], bool]
    share: float = 0.0


def advice(mod: IRModule, plan: Plan) -> list[Advice]:
    """What the rules say of the simplified *mod* and of the regions of its *plan*."""
    calls = [inner for _, func in functions_of(mod) for call in calls_of(func) for inner in inner_calls(call)]
    found = []
    for rule in RULES:
        met = [call for call in calls if rule.applies(call)]
        if met and len(met) > rule.share * len(calls):
            found.append(Advice(rule.code, rule.text, tuple(dict.fromkeys(map(_named, met)))))
    return [*found, *(advised for advised in _small_regions(mod, plan) if advised is not None)]


def _small_regions(mod: IRModule, plan: Plan) -> list[Advice | None]:
    if not plan.regions:
        return []
    calls = [call for _, func in functions_of(plan.prepare(mod)) for call in calls_of(func)]
    model = AnalyticModel(find=registered_profile)
    return [_small(region, [calls[number] for number in region.calls], model) for region in plan.regions]


def _small(region: PlannedRegion, calls: Sequence[Call], model: AnalyticModel) -> Advice | None:
    """A region that takes less time than it takes to start it and to bring its inputs and results."""
    if region.dynamic or not calls:
        return None
    work = sum(estimate.seconds for estimate in model.units(calls, region.target))
    moved = model.transfer(region.input_bytes, "host", region.target).seconds
    moved += model.transfer(region.output_bytes, region.target, "host").seconds
    overhead = model.launch(region.target).seconds + moved
    if work >= overhead:
        return None
    times = f"{1e6 * work:.0f} us of work for {1e6 * overhead:.0f} us of starting and copying"
    text = f"a small region is faster on the processor: {times} on {region.target}, as estimated"
    return Advice("small_region", text, region.nodes or region.operators)


def _named(call: Call) -> str:
    names = span_names(call.span)
    return ", ".join(names) if names else _op(call).name


def _op(call: Call) -> Op:
    assert isinstance(call.op, Op)
    return call.op


def _traits(call: Call) -> Traits:
    return _op(call).traits


def _shape(call: Call, operand: int | None = None) -> tuple[int, ...] | None:
    """The sizes of an operand, or of the result; None where one is free, or it is no tensor."""
    ty = call.checked_type if operand is None else call.args[operand].checked_type
    return ty.concrete_shape if isinstance(ty, TensorType) and ty.is_static else None


@dataclass(frozen=True)
class _Kernel:
    """What a convolution's weights say: channels in a group and out, sizes, and the number of groups."""

    out: int
    per_group: int
    sizes: tuple[int, ...]
    groups: int


def _kernel(call: Call) -> _Kernel | None:
    """The kernel of a convolution with weights of known size; None for another call."""
    shape = _shape(call, 1) if _traits(call).product is ProductForm.CONVOLUTION else None
    attrs = call.attrs
    if shape is None or attrs is None:
        return None
    layout = attrs.get_str("kernel_layout")
    if len(layout) != len(shape) or not {"O", "I"} <= set(layout):  # in blocks of channels, for one generator's code
        return None
    sizes = tuple(size for axis, size in zip(layout, shape, strict=True) if axis not in "OI")
    return _Kernel(shape[layout.index("O")], shape[layout.index("I")], sizes, attrs.get_int("groups"))


def _has_large_kernel(call: Call) -> bool:
    kernel = _kernel(call)
    return kernel is not None and sum(size >= LARGE_KERNEL for size in kernel.sizes) > 1


def _has_odd_channels(call: Call) -> bool:
    kernel = _kernel(call)
    if kernel is None:
        return False
    inner = kernel.per_group * kernel.groups
    return kernel.out % LANES != 0 or (inner % LANES != 0 and inner > IMAGE_CHANNELS)


def _is_dense_and_large(call: Call) -> bool:
    kernel = _kernel(call)
    if kernel is None or kernel.groups != 1 or math.prod(kernel.sizes) == 1:
        return False
    return min(kernel.out, kernel.per_group) >= MANY_CHANNELS


def _is_pointwise(call: Call) -> bool:
    """Arithmetic between values: an activation, and what a constant scales or shifts, go with the product before."""
    traits = _traits(call)
    bare = traits.kind is OpKind.POINTWISE and not traits.activation
    return bare and not any(isinstance(arg, Constant) for arg in call.args)


def _is_reshaping(call: Call) -> bool:
    traits = _traits(call)
    return traits.kind is OpKind.VIEW or (traits.kind is OpKind.MOVE and traits.permutes)


def _is_joining(call: Call) -> bool:
    """Concatenations and slices: values moved that are neither permuted nor repeated."""
    traits = _traits(call)
    return traits.kind is OpKind.MOVE and not traits.permutes and not traits.repeats


def _is_global_pooling(call: Call) -> bool:
    if _traits(call).kind not in (OpKind.REDUCTION, OpKind.WINDOW):
        return False
    before, after = _shape(call, 0), _shape(call)
    if before is None or after is None or len(before) < 4:
        return False
    axes = sum(size > 1 for size in before)
    kept = sum(size > 1 for size in after)
    return math.prod(after) == before[0] * before[1] and axes - kept >= 2


def _is_wide_reduction(call: Call) -> bool:
    results = [ty for ty in tensor_types(call.checked_type) if ty.is_static]
    if _traits(call).kind is not OpKind.REDUCTION or not results:
        return False
    return math.prod(results[0].concrete_shape) >= MANY_RESULTS


RULES = (
    AdviceRule(
        "large_kernel", "two 3x3 convolutions, or a 5x1 and a 1x5, are faster than one large kernel", _has_large_kernel
    ),
    AdviceRule("channels", f"numbers of channels that are multiples of {LANES} fill its vectors", _has_odd_channels),
    AdviceRule(
        "depthwise",
        f"a depthwise convolution and one of 1x1 are faster than a dense one of {MANY_CHANNELS} channels and more",
        _is_dense_and_large,
    ),
    AdviceRule(
        "pointwise",
        "much arithmetic of single elements: fewer operators between the products",
        _is_pointwise,
        POINTWISE_SHARE,
    ),
    AdviceRule("reshaping", "much reshaping: fewer squeezes, transposes, reshapes", _is_reshaping, MOVING_SHARE),
    AdviceRule("joining", "much copying: fewer concatenations and slices", _is_joining, MOVING_SHARE),
    AdviceRule(
        "global_pooling", "global pooling keeps few units busy: a strided convolution is faster", _is_global_pooling
    ),
    AdviceRule("wide_reduction", f"a reduction with {MANY_RESULTS:,} results and more is slow", _is_wide_reduction),
)
