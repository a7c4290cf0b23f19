"""The ``torch`` backend: regions through PyTorch's libraries, on a CUDA device cuBLAS and cuDNN.

An integration of a library of kernels without a graph format, to be read top to bottom: the constraints say which
dtypes, layouts and attributes PyTorch's functions have as ONNX means them; a region becomes a program of calls, whose
values stay on the device. Float32 is computed as float32; option ``precision="tf32"`` lets products round their
operands to TF32. ``module.py`` runs the programs, without the compiler, by the functions of ``kernels.py``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from byoc.contract import (
    EVERY,
    NAN_SPREAD,
    Backend,
    PatternEntry,
    RegionNode,
    callee_name,
    constraint,
    makes,
    register_backend,
)
from byoc.contract.constraints import (
    forward_slices,
    named_sizes,
    operators,
    plain_layouts,
    plain_transforms,
)
from byoc.contract.verdict import calls_in
from byoc.contrib.endings import biased
from byoc.contrib.program_generator import ProgramGenerator
from byoc.contrib.torch.module import PRECISIONS, TorchModule, misnamed, named_device, torch_missing
from byoc.contrib.torch.table import CONV_BIAS, DENSE_BIAS, DTYPES, KERNELS
from byoc.errors import UserError
from byoc.ir.op import Op
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import operator_of, tensor_type
from byoc.runtime.modules.module import Module

MAX_POOLS = ("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
AVG_POOLS = ("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")

# what is taken --------------------------------------------------------------------------------------------------------


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


@constraint("out_dtype", of=lambda op: op.traits.product is not None and op.name in KERNELS)
def one_dtype(call: Call) -> str | None:
    """products whose operands and result have one element type"""
    found = dict.fromkeys(t.dtype for t in _types(call))
    return ", ".join(found) if len(found) > 1 else None


@constraint("layout", of=("nn.global_avg_pool2d", "nn.global_max_pool2d", "nn.depth_to_space"))
def known_layouts(call: Call) -> str | None:
    """layouts of plain axes, each once; blocks of channels taken from NCHW"""
    layout, out = (str(getattr(call.attrs, name, "") or "") for name in ("layout", "out_layout"))
    if callee_name(call) == "nn.depth_to_space":
        return None if layout == "NCHW" else layout
    if out not in ("", layout):
        return f"{layout} to {out}"
    return None if layout.isupper() and len(set(layout)) == len(layout) else layout


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


@constraint("bias")
def one_for_each_channel(call: Call) -> str | None:
    """a bias of one number for each channel, behind the product in its own type"""
    inner = [c for c in calls_in(call) if operator_of(c).traits.product is not None]
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


# how it is written ----------------------------------------------------------------------------------------------------


class TorchGenerator(ProgramGenerator):
    """Writes the program of one region."""

    @makes(*KERNELS)
    def call(self, node: RegionNode, *arguments: int) -> list[int] | int:
        """One call, of any operator in the table; a composite has the attributes of its product."""
        call = node.call if isinstance(node.call.op, Op) else _product(node.call)
        return self.written(node, arguments, call.attrs)

    def compile(self, results: Sequence[int]) -> Module:
        program, signature = self.program(results)
        device, precision = (str(self.options.get(name, "")) for name in ("device", "precision"))
        return TorchModule({self.symbol: program}, [signature], device, precision or PRECISIONS[0])


def _product(call: Call) -> Call:
    return next(c for c in calls_in(call) if operator_of(c).traits.product is not None)


# the backend ----------------------------------------------------------------------------------------------------------


@register_backend
class TorchBackend(Backend):
    """Regions as programs of PyTorch's functions. Options: ``device`` (``cuda``, ``cuda:1``, ``cpu``; without it CUDA's
    first where the model runs and has one), ``precision`` (``f32``, or ``tf32`` for products on TF32).
    """

    name = "torch"
    options = ("device", "precision")
    needs_sizes = True
    deviations = (NAN_SPREAD,)  # its transposed convolutions multiply by zeros what others leave out
    constraints = (
        operators(table=KERNELS),
        dtypes_of_the_kernel,
        named_sizes(),
        one_dtype,
        plain_layouts(),
        plain_transforms(),
        known_layouts,
        windows_that_see,
        no_dilation,
        constant_padding,
        casts_that_all_agree_on,
        one_axis,
        forward_slices(steps=True),
        positions_inside,
        an_odd_window,
    )

    def unavailable(self) -> str | None:
        return torch_missing()

    def device_kind(self) -> str | None:
        if torch_missing() is not None:
            return None
        torch: Any = importlib.import_module("torch")
        return "gpu" if torch.cuda.is_available() else "cpu"

    def device_name(self, options: Mapping[str, object]) -> str | None:
        return named_device(str(options.get("device", "")))

    def check_options(self, options: Mapping[str, object]) -> None:
        """Raises UserError for a device that is none, or a precision that products do not have."""
        precision = options.get("precision", PRECISIONS[0])
        if precision not in PRECISIONS:
            raise UserError(f"torch.precision: expected {' or '.join(PRECISIONS)}, got {precision!r}")
        problem = misnamed(str(options.get("device", "")))
        if problem is not None:
            raise UserError(problem)

    def patterns(self) -> Sequence[PatternEntry]:
        """Products with their bias."""
        rows = []
        for name in (CONV_BIAS, DENSE_BIAS):
            compute = KERNELS[name].compute  # which computes the products, too
            for product in (other for other in KERNELS if other != name and KERNELS[other].compute is compute):
                result = is_op(product)(wildcard(), wildcard())
                rows.append(PatternEntry(name, biased(result, wildcard()), [one_for_each_channel]))
        return rows

    def compile(self, function: Function, options: Mapping[str, object]) -> Module:
        """The program of *function*."""
        return TorchGenerator(function, options).generate()
