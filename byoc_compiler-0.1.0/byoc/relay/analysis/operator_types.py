"""The type of an operator's call, by the relation that stands on the operator."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.op import Op
from byoc.ir.types import TensorType, Type
from byoc.relay.analysis.located import located
from byoc.relay.expr import Call


def infer_op_call(call: Call, op: Op, types: Sequence[Type]) -> Type:
    """The type of *call* of *op* on arguments of *types*.

    Raises TypeInferenceError naming the operator, the node and the types that do not fit.
    """
    if op.rel is None:
        raise TypeInferenceError(f"{op.name}: no type relation is registered for this operator{located(call)}")
    if len(call.args) != op.num_inputs and not op.variadic:
        raise TypeInferenceError(
            f"{op.name}: takes {op.num_inputs} inputs ({', '.join(op.input_names)}), "
            f"got {len(call.args)}{located(call)}"
        )
    if op.attrs_type is not None and not isinstance(call.attrs, op.attrs_type):
        raise TypeInferenceError(
            f"{op.name}: takes attributes {op.attrs_type.__name__}, got {type(call.attrs).__name__}{located(call)}"
        )
    try:
        return op.rel(types, call.attrs)
    except UserError as error:
        raise TypeInferenceError(f"{op.name}: {error}; inputs: {_texts(types)}{located(call)}") from error
    except AttributeError as error:
        if all(isinstance(ty, TensorType) for ty in types):
            raise
        raise TypeInferenceError(
            f"{op.name}: a tensor is given where a tuple is expected, or the reverse; "
            f"inputs: {_texts(types)}{located(call)}"
        ) from error


def _texts(types: Sequence[Type]) -> str:
    return ", ".join(map(repr, types))
