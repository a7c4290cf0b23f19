"""ManifestAlloc: the memory of every fused call written out, and where its size is unknown, what computes it.

``let %y = %f(%x)`` becomes the making of storage and of tensors in it, and ``vm.invoke_tvm_op(%f, (%x,), (%out,))``.
Where an output has an unknown size, ``vm.shape_func`` writes its shape first. Requires types and primitive functions;
ensures A-normal form and types. Nothing of byoc's own runs this form: it is what Relay's ``VMCompiler.optimize`` shows.
Source: ``src/relay/transforms/memory_alloc.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from byoc.annex.functional.to_a_normal_form import to_a_normal_form
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import ModulePass, PassContext, PassInfo
from byoc.ir.registry import register_func
from byoc.ir.types import TensorType, dtype_bytes, tensor_types
from byoc.ir.virtual_device import VirtualDevice
from byoc.relay import op
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Call, Constant, Function, If, Let, Tuple, Var, constant
from byoc.relay.narrowing import as_function
from byoc.relay.op.memory import from_tuple_type, to_tuple_type
from byoc.relay.op.memory_allocation import alloc_storage, alloc_tensor
from byoc.relay.op.vm import shape_of
from byoc.relay.op.vm_calls import invoke_tvm_op, shape_func
from byoc.runtime.core.device import Device

ALIGNMENT = 64
_UNITS = ("Primitive", "Compiler")


class _Block:
    """The bindings of one scope, in the making."""

    def __init__(self) -> None:
        self._bindings: list[tuple[Var, RelayExpr]] = []

    def bind(self, name: str, value: RelayExpr) -> Var:
        """A new variable for *value*."""
        self._bindings.append((Var(name), value))
        return self._bindings[-1][0]

    def add(self, variable: Var, value: RelayExpr) -> None:
        """Bind *variable* to *value*."""
        self._bindings.append((variable, value))

    def closed(self, result: RelayExpr) -> RelayExpr:
        """*result* behind all bindings."""
        for variable, value in reversed(self._bindings):
            result = Let(variable, value, result)
        return result


def _int64(value: object) -> Constant:
    return constant(np.asarray(value, "int64"))


class _Manifest:
    """The rewriting of one function; *regions* are the functions of other compilers by name."""

    def __init__(self, device: VirtualDevice, regions: set[GlobalVar]):
        self._device, self._regions = device, regions
        self._units: set[RelayExpr] = set()

    def block(self, node: RelayExpr) -> RelayExpr:
        """A chain of lets with its memory written out."""
        block = _Block()
        while isinstance(node, Let):
            value = node.value
            if isinstance(value, Function) and any(value.attrs.get(key) for key in _UNITS):
                self._units.add(node.variable)
            elif isinstance(value, If):
                branches = (self.block(value.true_branch), self.block(value.false_branch))
                value = If(value.cond, *branches, value.span)
            elif isinstance(value, Function):
                parts = (value.declared_ret_type, value.type_params, value.attrs, value.span)
                value = Function(value.params, self.block(value.body), *parts)
            block.add(node.variable, self._call(value, block) if self._is_unit(value) else value)
            node = node.body
        return block.closed(node)

    def _is_unit(self, value: RelayExpr) -> TypeGuard[Call]:
        if not isinstance(value, Call):
            return False
        literal = isinstance(value.op, Function) and any(value.op.attrs.get(key) for key in _UNITS)
        return literal or value.op in self._units or value.op in self._regions

    def _call(self, call: Call, block: _Block) -> RelayExpr:
        """The outputs of *call*, whose memory and invocation are bound in *block*."""
        inputs = [part for arg in call.args for part in from_tuple_type(arg.checked_type, arg)]
        types = tensor_types(call.checked_type)
        if all(ty.is_static for ty in types):
            shapes: Sequence[RelayExpr] = [_int64(ty.concrete_shape) for ty in types]
        else:
            shapes = self._computed_shapes(call, inputs, types, block)
        outputs = [self._tensor(ty, shape, block) for ty, shape in zip(types, shapes, strict=True)]
        block.bind("_", invoke_tvm_op(call.op, Tuple(inputs), Tuple(outputs)))
        return to_tuple_type(call.checked_type, outputs)

    def _computed_shapes(
        self, call: Call, inputs: Sequence[RelayExpr], types: Sequence[TensorType], block: _Block
    ) -> list[RelayExpr]:
        known = [block.bind("in_shape", shape_of(part)) for part in inputs]
        shapes: list[RelayExpr] = []
        for ty in types:
            vector = TensorType((ty.ndim,), "int64")
            shapes.append(self._tensor(vector, _int64([ty.ndim]), block))
        block.bind("shape_func", shape_func(call.op, Tuple(known), Tuple(shapes), [False] * len(known)))
        return shapes

    def _tensor(self, ty: TensorType, shape: RelayExpr, block: _Block) -> Var:
        """A new tensor of type *ty* and of *shape*, in storage of its own."""
        size: RelayExpr
        if ty.is_static:
            size = _int64(int(np.prod(ty.concrete_shape, dtype=np.int64)) * dtype_bytes(ty.dtype))
        else:
            size = op.multiply(op.prod(shape), _int64(dtype_bytes(ty.dtype)))
        storage = block.bind("storage", alloc_storage(size, shape, _int64(ALIGNMENT), self._device, ty.dtype))
        known = shape if isinstance(shape, Constant) else ty.shape
        return block.bind("tensor", alloc_tensor(storage, _int64(0), shape, ty.dtype, known))


def ManifestAlloc(virtual_device: VirtualDevice | None = None) -> ModulePass:
    """The pass that writes out the memory of fused calls, on *virtual_device* (the host)."""
    device = virtual_device if virtual_device is not None else VirtualDevice(Device("cpu"))

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        result = mod.shallow_copy()
        result.import_from_std("core.rly")
        written = {v: f for v, f in mod.functions.items() if isinstance(f, Function)}
        regions = {v for v, f in written.items() if "Compiler" in f.attrs}
        for var, func in written.items():
            if var not in regions:
                functions = {**mod.functions, var: as_function(to_a_normal_form(func))}
                normal = infer_module(IRModule(functions, mod.type_definitions))[var]
                assert isinstance(normal, Function)
                body = _Manifest(device, regions).block(normal.body)
                result[var] = Function(normal.params, body, func.ret_type, func.type_params, func.attrs, func.span)
        return infer_module(result)

    return ModulePass(
        run,
        PassInfo("ManifestAlloc", 0, ("InferType",), gives=("typed",), ends=("graph_normal_form", "fused", *REWRITES)),
    )


register_func("relay.transform.ManifestAlloc", ManifestAlloc)
