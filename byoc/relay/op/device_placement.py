"""Annotations of devices: where a value shall be, and a copy from one device to another.

``on_device`` says where its body is computed, and, with *constrain_result*, where its own result is; without that the
result may be copied elsewhere. ``PlanDevices`` turns both into facts: a device for each function and parameter, and
copies in between. Source: ``relay.annotation.on_device``, ``relay.device_copy``, ``src/relay/op/memory/on_device.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from byoc import te
from byoc.errors import UserError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.op import Op, Sample, register_op
from byoc.ir.traits import SAME
from byoc.ir.types import Type
from byoc.ir.virtual_device import UNCONSTRAINED, VirtualDevice
from byoc.relay.expr import VIRTUAL_DEVICE, Call, Function, Var
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import keep_type, substitute
from byoc.runtime.core.device import DEVICE_TYPES, Device

# TVM's other names of devices
_DEVICE_NAMES = {"gpu": "cuda", "cl": "opencl", "llvm": "cpu", "c": "cpu"}
_CPU = VirtualDevice(Device("cpu"))


@dataclass(frozen=True)
class OnDeviceAttrs(Attrs):
    """Where, and whether that holds for the body, for the result, or for both."""

    virtual_device: VirtualDevice
    constrain_result: bool = False
    constrain_body: bool = True


@dataclass(frozen=True)
class DeviceCopyAttrs(Attrs):
    """From where to where."""

    src_virtual_device: VirtualDevice
    dst_virtual_device: VirtualDevice


def _same_type(types: Sequence[Type], attrs: Attrs | None) -> Type:
    return types[0]


def _same_elements(attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: Type) -> list[te.Tensor]:
    return [te.compute(data.shape, lambda *i, data=data: data[i], "same") for data in inputs]


def _register(name: str, doc: str, attrs: type[Attrs], sample: dict[str, object]) -> Op:
    op = register_op(
        name,
        inputs=("data",),
        rel=_same_type,
        traits=SAME,
        doc=doc,
        attrs=attrs,
        compute=_same_elements,
        samples=(Sample([(2, 3)], sample),),
    )
    op.set_attr("TOpIsStateful", False)
    return op


ON_DEVICE = _register("on_device", "A value that is computed on a device.", OnDeviceAttrs, {"virtual_device": _CPU})
ON_DEVICE.set_attr("TNonComputational", True)
ON_DEVICE.set_attr("FoldConstantKeeps", True)
DEVICE_COPY = _register(
    "device_copy",
    "A value copied from one device to another.",
    DeviceCopyAttrs,
    {"src_virtual_device": _CPU, "dst_virtual_device": _CPU},
)

DEVICE_COPY.set_attr("FoldConstantKeeps", True)

DeviceLike = VirtualDevice | Device | str

# operators and constructors are on any device; the device of the others is set where they are bound
_SET_ELSEWHERE = (Op, Constructor, GlobalVar, Var, Function)


def as_virtual_device(device: DeviceLike) -> VirtualDevice:
    """*device*, or its kind with number 0, as a virtual device. Raises UserError for anything else."""
    if isinstance(device, VirtualDevice):
        return device
    if isinstance(device, Device):
        return VirtualDevice(device)
    name = _DEVICE_NAMES.get(device, device) if isinstance(device, str) else ""
    if name not in DEVICE_TYPES:
        raise UserError(f"expecting a Device or device name, but received a {type(device).__name__}: {device!r}")
    return VirtualDevice(Device(name))


def on_device(body: RelayExpr, device: DeviceLike, constrain_result: bool = False, constrain_body: bool = True) -> Call:
    """*body*, computed on *device* where *constrain_body*; its result is there too where *constrain_result*.

    Source: ``relay.annotation.on_device``.
    """
    given = as_virtual_device(device)
    is_open = not constrain_result and not constrain_body  # then the device says nothing
    attrs = OnDeviceAttrs(UNCONSTRAINED if is_open else given, bool(constrain_result), bool(constrain_body))
    return keep_type(body, Call(ON_DEVICE, [body], attrs, span=body.span))


def device_copy(data: RelayExpr, src_device: DeviceLike, dst_device: DeviceLike) -> Call:
    """*data*, which is on *src_device*, copied to *dst_device*. Source: ``relay.device_copy``."""
    attrs = DeviceCopyAttrs(as_virtual_device(src_device), as_virtual_device(dst_device))
    return keep_type(data, Call(DEVICE_COPY, [data], attrs, span=data.span))


def function_on_device(function: Function, param_devices: Sequence[DeviceLike], result_device: DeviceLike) -> Function:
    """*function* with a device for each parameter and for its result.

    Raises UserError where the numbers of parameters and devices differ. Source:
    ``relay.annotation.function_on_device``.
    """
    if len(param_devices) != len(function.params):
        raise UserError(f"the function has {len(function.params)} parameters, got {len(param_devices)} devices")
    params = [var_on_device(p, as_virtual_device(d)) for p, d in zip(function.params, param_devices, strict=True)]
    body = substitute(function.body, dict(zip(function.params, params, strict=True)))
    made = Function(params, body, function.declared_ret_type, function.type_params, function.attrs, function.span)
    return as_function(keep_type(function, made.with_attr(VIRTUAL_DEVICE, as_virtual_device(result_device))))


def var_on_device(var: Var, device: VirtualDevice) -> Var:
    """A variable like *var*, on *device*."""
    made = Var(var.name_hint, var.type_annotation, var.span)
    made._checked_type = var._checked_type
    made.virtual_device_ = device
    return made


def maybe_on_device(body: RelayExpr, device: VirtualDevice) -> RelayExpr:
    """*body* on *device* for good, where its device is not known without: not for variables and functions.

    Source: ``MaybeOnDeviceFixed``.
    """
    if device == UNCONSTRAINED or isinstance(body, _SET_ELSEWHERE):
        return body
    if is_on_device(body) and body.attrs.virtual_device == device:
        return on_device(body.args[0], device, constrain_result=True)
    return on_device(body, device, constrain_result=True)


def is_on_device(expr: RelayExpr) -> TypeGuard[Call]:
    """True for a call of ``on_device``."""
    return type(expr) is Call and expr.op is ON_DEVICE


def is_device_copy(expr: RelayExpr) -> TypeGuard[Call]:
    """True for a call of ``device_copy``."""
    return type(expr) is Call and expr.op is DEVICE_COPY
