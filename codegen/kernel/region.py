"""What generated-code backends share around a Program: what they can take at all, fused bodies, and constants.

The constraints judge a call by the types of all its tensors, and a composite by the calls inside, as lowering does.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.kernel.lower import LOWERED, has_code
from byoc.codegen.kernel.program import Program
from byoc.contract.verdict import EVERY, constraint
from byoc.ir.op import Op
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.expr import Call
from byoc.relay.transform.fuse.fuse_ops import fuse_body as fuse_body
from byoc.runtime.core.ndarray import NDArray


def tensors_of(call: Call) -> list[TensorType]:
    """The types of the tensors that *call* takes and gives, tuples flattened."""
    types = [*(a.checked_type for a in call.args), call.checked_type]
    return [t for ty in types for t in tensor_types(ty)]


@constraint("expression", of=EVERY)
def has_expression(call: Call) -> object | None:
    """operators whose elements are defined by a tensor expression"""
    if not isinstance(call.op, Op):
        return type(call.op).__name__
    return None if has_code(call) else call.op.name


@constraint("dtype", of=EVERY)
def generated_dtype(call: Call) -> object | None:
    """bool, floats and ints of 64 bits and fewer; no strings"""
    return next((t.dtype for t in tensors_of(call) if t.dtype not in LOWERED), None)


@constraint("shape", of=EVERY)
def known_shape(call: Call) -> object | None:
    """every dimension a number or a named size"""
    return next((t for t in tensors_of(call) if not t.is_symbolic), None)


def constant_arrays(programs: Sequence[Program]) -> dict[str, NDArray]:
    """The constants of *programs* by the names in their signatures."""
    return {
        spec.name: data for p in programs for spec, (_, data) in zip(p.signature.constants, p.constants, strict=True)
    }
