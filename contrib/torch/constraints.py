"""What the ``torch`` backend takes: dtypes, layouts and attributes that PyTorch's functions have as ONNX means them."""

from __future__ import annotations

from byoc.contract import EVERY, callee_name, constraint
from byoc.contract.constraints import operators
from byoc.contract.verdict import calls_in
from byoc.contrib.torch.table import DTYPES, KERNELS
from byoc.contrib.torch.windows import CANONICAL
from byoc.ir.op import Op
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.expr import Call
from byoc.relay.narrowing import tensor_type

CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
TRANSPOSED = ("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")
MAX_POOLS = ("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
AVG_POOLS = ("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")
IMAGES = (*CONVOLUTIONS, *TRANSPOSED, *MAX_POOLS, *AVG_POOLS)


def _types(call: Call) -> list[TensorType]:
    return [t for value in (call, *call.args) for t in tensor_types(value.checked_type)]


@constraint("dtype", of=EVERY)
def dtypes_of_the_kernel(call: Call) -> str | None:
    """floats, integers of up to 64 bits with a sign, uint8 or bool, as PyTorch's function of the operator takes them"""
    wrong = next((t.dtype for t in _types(call) if t.dtype not in DTYPES), None)
    if wrong is not None or not isinstance(call.op, Op) or call.op.name not in KERNELS:
        return wrong
    given = tensor_types(call.args[0].checked_type) if call.args else []
    return next((t.dtype for t in given if t.dtype not in KERNELS[call.op.name].dtypes), None)


@constraint("shape", of=EVERY)
def named_sizes(call: Call) -> str | None:
    """dimensions that are numbers or named sizes"""
    return next((str(t) for t in _types(call) if not t.is_symbolic), None)


@constraint("out_dtype", of=(*CONVOLUTIONS, *TRANSPOSED, "nn.dense", "nn.matmul", "nn.batch_matmul"))
def one_dtype(call: Call) -> str | None:
    """products whose operands and result have one element type"""
    found = dict.fromkeys(t.dtype for t in _types(call))
    return ", ".join(found) if len(found) > 1 else None


@constraint("layout", of=IMAGES)
def plain_layouts(call: Call) -> str | None:
    """layouts of plain axes, each once, in any order"""
    attrs, n = call.attrs, tensor_type(call.args[0]).ndim - 2
    kernel = "OI" + CANONICAL.get(n, "NC")[2:]
    wanted = {"layout": CANONICAL.get(n, ""), "data_layout": CANONICAL.get(n, ""), "kernel_layout": kernel}
    wanted["out_layout"] = CANONICAL.get(n, "")
    layouts = {name: str(getattr(attrs, name, "") or "") for name in wanted}
    return next((f"{k} {v}" for k, v in layouts.items() if v and sorted(v) != sorted(wanted[k])), None)


@constraint("layout", of=("layout_transform", "nn.global_avg_pool2d", "nn.global_max_pool2d", "nn.depth_to_space"))
def known_layouts(call: Call) -> str | None:
    """layouts of plain axes, each once; blocks of channels taken from NCHW"""
    names = [str(getattr(call.attrs, name, "") or "") for name in ("src_layout", "dst_layout", "layout", "out_layout")]
    if callee_name(call) == "nn.depth_to_space":
        return None if names[2] == "NCHW" else names[2]
    if names[3] not in ("", names[2]):
        return f"{names[2]} to {names[3]}"
    return next((name for name in names if (not name.isupper() and name) or len(set(name)) != len(name)), None)


@constraint("window", of=MAX_POOLS)
def windows_that_see(call: Call) -> str | None:
    """windows that are wider than their padding"""
    attrs, n = call.attrs, tensor_type(call.args[0]).ndim - 2
    sizes = [int(k) for k in attrs.pool_size] * (n if len(attrs.pool_size) == 1 else 1)
    reach = [(k - 1) * int(d) for k, d in zip(sizes, [*attrs.dilation] * n, strict=False)]
    return f"padding {list(attrs.padding)}" if max(map(int, attrs.padding)) > min(reach) else None


@constraint("dilation", of=AVG_POOLS)
def no_dilation(call: Call) -> str | None:
    """means over neighbours"""
    return None if all(int(d) == 1 for d in call.attrs.dilation) else f"dilation {list(call.attrs.dilation)}"


@constraint("pad", of="nn.pad")
def constant_padding(call: Call) -> str | None:
    """padding by one number"""
    return None if call.attrs.pad_mode == "constant" else str(call.attrs.pad_mode)


@constraint("cast", of="cast")
def casts_that_all_agree_on(call: Call) -> str | None:
    """casts of numbers that have a place in the other type: none from floats to integers"""
    source, target = tensor_type(call.args[0]).dtype, tensor_type(call).dtype
    whole = not target.startswith("float") and target != "bool"
    return f"{source} to {target}" if source.startswith("float") and whole else None


@constraint("axis", of=("argmax", "argmin"))
def one_axis(call: Call) -> str | None:
    """one axis, and of equal elements the first"""
    axes = call.attrs.axis
    if call.attrs.select_last_index:
        return "the last of equals"
    one = axes is not None and len(axes) == 1 and not call.attrs.exclude
    return None if one else f"axis {axes}"


@constraint("slice", of="strided_slice")
def forwards(call: Call) -> str | None:
    """a constant begin and end, forwards"""
    attrs = call.attrs
    if len(call.args) > 1 or attrs.slice_mode != "end":
        return "a computed begin" if len(call.args) > 1 else f"slice_mode {attrs.slice_mode}"
    return next((f"stride {s}" for s in attrs.strides if int(s) < 1), None)


@constraint("take", of="take")
def positions_inside(call: Call) -> str | None:
    """positions that are clipped or wrapped, along one axis, of data with elements"""
    attrs = call.attrs
    if attrs.mode not in ("clip", "wrap") or attrs.batch_dims:
        return f"mode {attrs.mode}, batch_dims {attrs.batch_dims}"
    return next((str(t) for t in tensor_types(call.args[0].checked_type) if 0 in t.shape), None)


@constraint("lrn", of="nn.lrn")
def an_odd_window(call: Call) -> str | None:
    """a window of an odd size"""
    return None if int(call.attrs.size) % 2 else str(call.attrs.size)


@constraint("shape", of=("reshape", "expand_dims", "squeeze", "repeat"))
def attributes_alone(call: Call) -> str | None:
    """shapes that are attributes, and not computed"""
    return None if len(call.args) == 1 else "a computed shape"


@constraint("bias")
def one_for_each_channel(call: Call) -> str | None:
    """a bias of one number for each channel, behind the product in its own type"""
    inner = [c for c in calls_in(call) if callee_name(c) in (*CONVOLUTIONS, "nn.dense")]
    added = [c for c in calls_in(call) if c not in inner]
    if len(inner) != 1 or len(added) != 1:
        return "no product"
    product, bias = tensor_type(inner[0]), tensor_type(added[0].args[1])
    axis = _channels(inner[0], product.ndim)
    wanted = [1] * (product.ndim - 1 - axis)
    if callee_name(added[0]) == "nn.bias_add":
        place = int(added[0].attrs.axis) % product.ndim
        return None if place == axis else f"axis {place}"
    fits = list(bias.shape) == [product.shape[axis], *wanted]
    return None if fits and tensor_type(added[0]).shape == product.shape else str(bias)


def _channels(product: Call, ndim: int) -> int:
    """The axis of a product's channels."""
    layout = str(getattr(product.attrs, "out_layout", "") or getattr(product.attrs, "data_layout", ""))
    return layout.index("C") if layout else ndim - 1


TAKEN = (
    operators(table=KERNELS),
    dtypes_of_the_kernel,
    named_sizes,
    one_dtype,
    plain_layouts,
    known_layouts,
    windows_that_see,
    no_dilation,
    constant_padding,
    casts_that_all_agree_on,
    one_axis,
    forwards,
    positions_inside,
    an_odd_window,
    attributes_alone,
)
