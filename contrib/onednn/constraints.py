"""What the ``onednn`` backend takes: dtypes, layouts, attributes that oneDNN's primitives have as ONNX means them."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.contract import EVERY, callee_name, constraint
from byoc.contrib.onednn.activations import inlined
from byoc.contrib.onednn.fusing import PRODUCTS
from byoc.contrib.onednn.table import BUILDERS
from byoc.contrib.onednn.window import CANONICAL, pads_of, per_axis
from byoc.ir.op import Op
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.narrowing import tensor_type
from byoc.relay.traverse import dataflow_children, post_order

FLOATS = ("float32", "float16", "bfloat16")
MOST_AXES = 6
MAX_POOLS = tuple(f"nn.max_pool{n}d" for n in (1, 2, 3))
AVG_POOLS = tuple(f"nn.avg_pool{n}d" for n in (1, 2, 3))
CONVOLUTIONS = tuple(name for name in sorted(PRODUCTS) if "conv" in name)
IMAGES = (*CONVOLUTIONS, *MAX_POOLS, *AVG_POOLS, "nn.global_avg_pool2d", "nn.global_max_pool2d")


def _types(call: Call) -> list[TensorType]:
    return [t for value in (call, *call.args) for t in tensor_types(value.checked_type)]


@constraint("dtype", of=EVERY)
def one_float_type(call: Call) -> str | None:
    """float32, float16 or bfloat16, the same for all tensors but those of a cast"""
    found = dict.fromkeys(t.dtype for t in _types(call))
    wrong = next((dtype for dtype in found if dtype not in FLOATS), None)
    return wrong or (", ".join(found) if len(found) > 1 and callee_name(call) != "cast" else None)


@constraint("shape", of=EVERY)
def named_sizes(call: Call) -> str | None:
    """up to six dimensions, which are numbers above 0 or named sizes"""
    types = _types(call)
    return next((str(t) for t in types if not t.is_symbolic or t.ndim > MOST_AXES or 0 in t.shape), None)


@constraint("layout", of=IMAGES)
def plain_layouts(call: Call) -> str | None:
    """layouts of plain axes, each once, in any order; kernels perhaps with an axis of groups"""
    attrs, letters = call.attrs, CANONICAL.get(tensor_type(call.args[0]).ndim - 2, "")
    kernel = "OI" + letters[2:]
    wanted = {"layout": [letters], "data_layout": [letters], "out_layout": [letters], "kernel_layout": [kernel]}
    wanted["kernel_layout"] += [f"G{kernel}"]
    layouts = {name: str(getattr(attrs, name, "") or "") for name in wanted}
    return next(
        (f"{k} {v}" for k, v in layouts.items() if v and all(sorted(v) != sorted(w) for w in wanted[k])),
        None,
    )


@constraint("rank", of=("nn.matmul", "nn.batch_matmul"))
def matrices(call: Call) -> str | None:
    """products of matrices, or of stacks of them"""
    return next((str(tensor_type(a)) for a in call.args if tensor_type(a).ndim < 2), None)


@constraint("layout", of="layout_transform")
def plain_transforms(call: Call) -> str | None:
    """layouts of plain axes, each once"""
    names = [str(call.attrs.src_layout), str(call.attrs.dst_layout)]
    return next((name for name in names if not name.isupper() or len(set(name)) != len(name)), None)


@constraint("window", of=(*MAX_POOLS, *AVG_POOLS))
def windows_that_see(call: Call) -> str | None:
    """windows that see an element each, and means over neighbours, without windows that hang over counted padding"""
    attrs, n = call.attrs, tensor_type(call.args[0]).ndim - 2
    kernel, dilation = per_axis(attrs.pool_size, n), per_axis(attrs.dilation, n)
    averages = callee_name(call) in AVG_POOLS
    if averages and set(dilation) != {1}:
        return f"dilation {dilation}"
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    pads = pads_of(attrs.padding, n)
    if any(before > r or after > r for (before, after), r in zip(pads, reach, strict=True)):
        return f"padding {list(attrs.padding)}"
    if not attrs.ceil_mode:
        return None
    if (averages and attrs.count_include_pad) or not tensor_type(call.args[0]).is_static:
        return "ceil_mode"
    return None if _last_begins_inside(call, pads) else "ceil_mode with a last window outside"


def _last_begins_inside(call: Call, pads: Sequence[tuple[int, int]]) -> bool:
    """Whether the last window of a pool begins in the image, along each axis."""
    layout, n = str(call.attrs.layout), len(pads)
    letters = CANONICAL.get(n, "")[2:]
    sizes, outs = ([int(tensor_type(e).shape[layout.index(a)]) for a in letters] for e in (call.args[0], call))
    strides = per_axis(call.attrs.strides, n)
    return all((o - 1) * s - b < i for o, s, (b, _), i in zip(outs, strides, pads, sizes, strict=True))


@constraint("axis", of=("nn.layer_norm", "nn.batch_norm", "nn.lrn"))
def axes_of_normalizations(call: Call) -> str | None:
    """layer_norm along the last axis, batch_norm and lrn along the second; lrn over an odd number of channels"""
    ndim, name = tensor_type(call.args[0]).ndim, callee_name(call)
    axis = int(call.attrs.axis) % ndim
    if name == "nn.lrn" and (ndim != 4 or not int(call.attrs.size) % 2):
        return f"size {call.attrs.size}"
    return None if axis == (ndim - 1 if name == "nn.layer_norm" else 1) else f"axis {axis} of {ndim}"


@constraint("dtype", of=("nn.layer_norm", "nn.batch_norm"))
def float32_normalizations(call: Call) -> str | None:
    """normalizations of float32: the scale and the shift of a primitive are float32, whatever its data are"""
    return next((t.dtype for t in _types(call) if t.dtype != "float32"), None)


@constraint("window", of=tuple(name for name in CONVOLUTIONS if name.endswith("transpose")))
def ends_within_a_stride(call: Call) -> str | None:
    """transposed convolutions whose output_padding is less than their strides"""
    n = tensor_type(call.args[0]).ndim - 2
    strides, added = per_axis(call.attrs.strides, n), per_axis(call.attrs.output_padding, n)
    return f"output_padding {list(added)}" if any(a >= s for a, s in zip(added, strides, strict=True)) else None


@constraint("resize", of=("image.resize2d", "nn.upsampling"))
def centres(call: Call) -> str | None:
    """linear between centres of elements, or each element as often as a whole number says"""
    attrs = call.attrs
    method = str(attrs.method)
    if getattr(attrs, "coordinate_transformation_mode", "half_pixel") == "half_pixel" and "linear" in method:
        return None if callee_name(call) == "image.resize2d" else method
    types = [tensor_type(e) for e in (call.args[0], call)]
    whole = all(t.is_static for t in types) and all(
        int(a) and int(b) % int(a) == 0 for a, b in zip(types[0].shape, types[1].shape, strict=True)
    )
    mode = str(getattr(attrs, "coordinate_transformation_mode", "asymmetric"))
    nearest = "nearest" in method and whole and mode in ("asymmetric", "half_pixel")
    rounding = str(getattr(attrs, "rounding_method", "") or "floor")
    fits = nearest and (mode == "half_pixel" or "floor" in rounding)
    return None if fits else f"{method} {mode} {rounding}"


@constraint("pad", of="nn.pad")
def zeros_around(call: Call) -> str | None:
    """zeros around, none taken away"""
    value = call.args[1]
    if call.attrs.pad_mode != "constant" or not isinstance(value, Constant) or value.data.numpy().any():
        return "other padding"
    return "negative widths" if any(int(n) < 0 for pair in call.attrs.pad_width for n in pair) else None


@constraint("slice", of="strided_slice")
def forwards(call: Call) -> str | None:
    """a constant begin and end, and every element between"""
    attrs = call.attrs
    if len(call.args) > 1 or attrs.slice_mode != "end":
        return "a computed begin" if len(call.args) > 1 else f"slice_mode {attrs.slice_mode}"
    return next((f"stride {s}" for s in attrs.strides or () if int(s) != 1), None)


@constraint("shape", of=("reshape", "expand_dims", "squeeze", "nn.batch_flatten"))
def attributes_alone(call: Call) -> str | None:
    """shapes that are attributes, and not computed"""
    return None if len(call.args) == 1 else "a computed shape"


@constraint("activation")
def whole_activations(call: Call) -> str | None:
    """of composites, operators that it has, and gelu and swish with their own constants"""
    if not isinstance(call.op, Function):
        return None
    names = [callee_name(c) for c in post_order(inlined(call.op).body, dataflow_children) if isinstance(c, Call)]
    return next((name for name in names if name not in BUILDERS), None)


@constraint("operator")
def primitives(call: Call) -> str | None:
    """an operator that its table of primitives has"""
    return None if not isinstance(call.op, Op) or call.op.name in BUILDERS else call.op.name


TAKEN = (
    primitives,
    one_float_type,
    named_sizes,
    plain_layouts,
    matrices,
    plain_transforms,
    windows_that_see,
    axes_of_normalizations,
    float32_normalizations,
    ends_within_a_stride,
    centres,
    zeros_around,
    forwards,
    attributes_alone,
    whole_activations,
)
