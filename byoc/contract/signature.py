"""The calling convention of a function, read from its types."""

from __future__ import annotations

from collections.abc import Mapping

from byoc.ir.types import Any, TensorType, tensor_types
from byoc.relay.expr import Function
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import Dim, Signature, TensorSpec


def spec_of(name: str, ty: TensorType) -> TensorSpec:
    """A tensor type as the runtime describes it: a named dimension is its name, an unnamed one None."""
    return TensorSpec(name, tuple(_dim(d) for d in ty.shape), ty.dtype)


def _dim(dim: int | Any) -> Dim:
    return (dim.name or None) if isinstance(dim, Any) else dim


def signature_of(symbol: str, func: Function, constants: Mapping[str, NDArray]) -> Signature:
    """What *func* takes and gives, tuples flattened; a field of a tuple is called ``name.0``."""
    inputs = []
    for param in func.params:
        types = tensor_types(param.checked_type)
        names = (
            [param.name_hint]
            if isinstance(param.checked_type, TensorType)
            else [f"{param.name_hint}.{k}" for k in range(len(types))]
        )
        inputs += [spec_of(name, ty) for name, ty in zip(names, types, strict=True)]
    outputs = [spec_of(f"out{k}", t) for k, t in enumerate(tensor_types(func.body.checked_type))]
    return Signature(
        symbol,
        tuple(inputs),
        tuple(outputs),
        tuple(TensorSpec(name, array.shape, array.dtype) for name, array in constants.items()),
    )
