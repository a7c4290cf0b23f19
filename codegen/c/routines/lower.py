"""From a call of an operator that has a routine to the Program of that routine.

A function of one such call is a program of its own: fusion leaves such calls alone, for they are opaque to it.
"""

from __future__ import annotations

import re

from byoc.codegen.c.routines.registry import Routine, RoutineCall
from byoc.codegen.kernel.lower import spec_of, type_reason
from byoc.codegen.kernel.program import Program, RoutineGroup
from byoc.errors import UnsupportedError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import tensor_types
from byoc.relay.analysis.operator_calls import located
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.te import Tensor, placeholder
from byoc.te.tensor import shape_of


def routine_refusal(call: Call, routine: Routine) -> str | None:
    """Why *routine* does not take *call*. Raises TypeInferenceError when its types do not fit."""
    infer_expr(call)
    for ty in (*(arg.checked_type for arg in call.args), call.checked_type):
        reason = type_reason(ty, located(call))
        if reason is not None:
            return reason
    assert isinstance(call.op, Op)
    why = routine.refuses(call.attrs or Attrs(), [t for a in call.args for t in tensor_types(a.checked_type)])
    return None if why is None else f"{call.op.name} has no routine in C for {why}{located(call)}"


def lower_routine(function: Function, symbol: str, call: Call, routine: Routine) -> Program:
    """The program *symbol* of *call*, which is all of *function*, by *routine*: buffers for what it reads and fills.

    Raises UnsupportedError where the routine does not take it.
    """
    reason = routine_refusal(call, routine)
    if reason is not None:
        raise UnsupportedError(f"{symbol}: {reason}")
    params = [(p, t) for p in function.params for t in tensor_types(p.checked_type)]
    constants = list(dict.fromkeys(arg for arg in call.args if isinstance(arg, Constant)))
    tensors: dict[RelayExpr, Tensor] = {p: placeholder(shape_of(t), t.dtype, p.name_hint) for p, t in params}
    known: dict[RelayExpr, Tensor] = {
        c: placeholder(c.data.shape, c.data.dtype, f"const_{k}", c.data.numpy()) for k, c in enumerate(constants)
    }
    reads = [{**tensors, **known}[arg] for arg in call.args]
    results = tensor_types(call.checked_type)
    outputs = [Tensor(f"output_{k}", shape_of(t), t.dtype) for k, t in enumerate(results)]
    assert isinstance(call.op, Op)
    origin = tuple(span_names(function.span) or span_names(call.span))
    body = routine.write(RoutineCall(call.attrs or Attrs(), reads, outputs, _place(call.op.name, origin)))
    title = re.sub(r"\W", "_", call.op.name, flags=re.ASCII)
    group = RoutineGroup(
        title,
        origin,
        (*body.scratch, *outputs),
        title,
        operators=(call.op.name,),
        reads=tuple(reads),
        blocks=tuple(map(tuple, body.blocks)),
        made_checks=tuple(body.checks),
        wraps=body.wraps,
    )
    signature = Signature(
        symbol,
        tuple(spec_of(tensors[p].name, t) for p, t in params),
        tuple(spec_of(t.name, ty) for t, ty in zip(outputs, results, strict=True)),
        tuple(TensorSpec(f"{symbol}_const_{k}", c.data.shape, c.data.dtype) for k, c in enumerate(constants)),
        group.checks,
    )
    pairs = tuple((known[c], c.data) for c in constants)
    return Program(symbol, signature, tuple(tensors.values()), pairs, tuple(outputs), (), group)


def _place(operator: str, origin: tuple[str, ...]) -> str:
    return f"node {', '.join(origin)} ({operator})" if origin else operator
