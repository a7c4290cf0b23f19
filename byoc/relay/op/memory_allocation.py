"""The memory dialect: storage, tensors in it, and its end, as Relay's programs spell them before bytecode.

They compute nothing, so that no kernel and no samples belong to them. Storage has the type ``Storage`` of ``core.rly``.
Source: ``relay.op.memory``, ``src/relay/op/memory/memory.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import A, RelationOf, register_op
from byoc.ir.registry import get_global_func
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import Any, TensorType, TupleType, Type, TypeCall
from byoc.ir.virtual_device import VirtualDevice
from byoc.relay.expr import Call, Constant
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.device_placement import DeviceLike, as_virtual_device
from byoc.relay.op.dynamic import vector_length
from byoc.runtime.core.ndarray import NDArray


@dataclass(frozen=True)
class AllocStorageAttrs(Attrs):
    """On which device storage is, and what it is going to hold."""

    virtual_device: VirtualDevice
    dtype: str = "float32"


@dataclass(frozen=True)
class AllocTensorAttrs(Attrs):
    """The dtype of a tensor in storage, and its shape as far as it is known.

    ``const_shape`` is the shape whole, which may be given as the constant that Relay keeps there; ``assert_shape`` are
    dimensions, -1 for one that is not known.
    """

    const_shape: object = None
    assert_shape: tuple[int, ...] = ()
    dtype: str = "float32"

    def __post_init__(self) -> None:
        given = self.const_shape.data if isinstance(self.const_shape, Constant) else self.const_shape
        if isinstance(given, NDArray):  # as the text has it, ``meta[relay.Constant][0]``
            object.__setattr__(self, "const_shape", tuple(int(d) for d in given.numpy()))
        object.__setattr__(self, "assert_shape", _known_sizes(self.assert_shape))
        super().__post_init__()


def _known_sizes(shape: Sequence[object] | None) -> tuple[int, ...]:
    return tuple(int(d) if isinstance(d, int) else -1 for d in shape or ())


def storage_type() -> Type:
    """``Storage[]`` of the standard module ``core.rly``."""
    return TypeCall(get_global_func("relay.std.type_header")("core.rly", "Storage"), ())


def _check_number(types: Sequence[Type], index: int, name: str) -> None:
    if types[index] != TensorType((), "int64"):
        raise TypeInferenceError(f"{name} must be a scalar int64, got {types[index]}")


def _storage_rel(types: Sequence[Type], attrs: AllocStorageAttrs) -> Type:
    _check_number(types, 0, "size")
    _check_number(types, 2, "alignment")
    return storage_type()


def _tensor_rel(types: Sequence[Type], attrs: AllocTensorAttrs) -> Type:
    if types[0] != storage_type():
        raise TypeInferenceError(f"storage must be of type {storage_type()!r}, got {types[0]!r}")
    _check_number(types, 1, "offset")
    if isinstance(attrs.const_shape, tuple):
        return TensorType(attrs.const_shape, attrs.dtype)
    dims = [d if d >= 0 else Any() for d in attrs.assert_shape] or [Any()] * vector_length(types, 2, "shape")
    return TensorType(dims, attrs.dtype)


def _register(
    name: str,
    inputs: Sequence[str],
    rel: RelationOf[A],
    attrs: type[A] | None,
    stateful: bool,
    doc: str,
    host_operands: tuple[int, ...] = (),
) -> None:
    traits = Traits(OpKind.OTHER, host_operands=host_operands)
    op = register_op(name, inputs=inputs, rel=rel, attrs=attrs, doc=doc, traits=traits)
    op.set_attr("TOpIsStateful", stateful)
    op.set_attr("TNonComputational", True)


_register(
    "memory.alloc_storage",
    ("size", "shape", "alignment"),
    _storage_rel,
    AllocStorageAttrs,
    False,
    "So many bytes of memory, for a tensor of a shape.",
    host_operands=(0, 1, 2),
)
_register(
    "memory.alloc_tensor",
    ("storage", "offset", "shape"),
    _tensor_rel,
    AllocTensorAttrs,
    False,
    "A tensor that lies in storage.",
    host_operands=(1, 2),
)
_register("memory.kill", ("data",), lambda types, attrs: TupleType(()), None, True, "The end of a value's memory.")


def alloc_storage(
    size: Operand, shape: Operand, alignment: Operand, virtual_device: DeviceLike, dtype_hint: str = "float32"
) -> Call:
    """*size* bytes at a multiple of *alignment*. Source: ``relay.op.memory.alloc_storage``."""
    attrs = AllocStorageAttrs(as_virtual_device(virtual_device), dtype_hint)
    args = [as_expr(size, "int64"), as_expr(shape, "int64"), as_expr(alignment, "int64")]
    return make_call("memory.alloc_storage", args, attrs)


def alloc_tensor(
    storage: RelayExpr,
    offset: Operand,
    shape: Operand,
    dtype: str = "float32",
    assert_shape: Sequence[object] | Constant | None = None,
) -> Call:
    """A tensor of *shape* at *offset* of *storage*; *assert_shape*, a constant or sizes, says what is known of it.

    Source: ``relay.op.memory.alloc_tensor``.
    """
    args = [storage, as_expr(offset, "int64"), as_expr(shape, "int64")]
    if isinstance(assert_shape, Constant):
        attrs = AllocTensorAttrs(assert_shape, (), dtype)
    else:
        attrs = AllocTensorAttrs(None, _known_sizes(assert_shape), dtype)
    return make_call("memory.alloc_tensor", args, attrs)


def kill(data: RelayExpr) -> Call:
    """The end of *data*'s memory. Source: ``relay.op.memory.kill``."""
    return make_call("memory.kill", [data])
