"""From a Relay function to the Program that C is written for: groups of stages, or a routine.

A function of one call of an operator that has a routine is a program of its own; fusion leaves such calls alone, for
they are opaque to it. All others are lowered as for every generated language.
"""

from __future__ import annotations

import re

from byoc.codegen.c.routines.registry import Routine, Site, find_routine
from byoc.codegen.kernel.lower import lower_function, type_reason, unsupported_reason
from byoc.codegen.kernel.program import Program, RoutineGroup
from byoc.errors import UnsupportedError
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.operator_calls import located
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Var
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.te import Tensor, placeholder
from byoc.te.tensor import shape_of


def no_code_reason(function: Function) -> str | None:
    """Why no C can be generated for *function*: one sentence, or None when :func:`lower_to_c` takes it.

    Raises TypeInferenceError when its types do not fit.
    """
    found = _routine_of(function)
    return unsupported_reason(function) if found is None else _refusal(*found)


def lower_to_c(function: Function, symbol: str) -> Program:
    """*function* as the Program *symbol*. Raises UnsupportedError naming the node when no C can be generated for it."""
    found = _routine_of(function)
    if found is None:
        return lower_function(function, symbol)
    reason = _refusal(*found)
    if reason is not None:
        raise UnsupportedError(f"{symbol}: {reason}")
    return _program(function, symbol, *found)


def has_routine(function: Function) -> bool:
    """Whether *function* is a call of an operator that has a routine."""
    return _routine_of(function) is not None


def _routine_of(function: Function) -> tuple[Call, Routine] | None:
    """The call that is all of *function*, of inputs and constants alone, and its operator's routine."""
    call = function.body
    if not isinstance(call, Call) or not isinstance(call.op, Op):
        return None
    if not all(isinstance(arg, Var | Constant) for arg in call.args):
        return None
    routine = find_routine(call.op)
    return None if routine is None else (call, routine)


def _refusal(call: Call, routine: Routine) -> str | None:
    """Why *routine* does not take *call*."""
    infer_expr(call)
    for ty in (*(arg.checked_type for arg in call.args), call.checked_type):
        reason = type_reason(ty, located(call))
        if reason is not None:
            return reason
    assert isinstance(call.op, Op) and call.attrs is not None
    why = routine.refuses(call.attrs, [t for a in call.args for t in tensor_types(a.checked_type)])
    return None if why is None else f"{call.op.name} has no routine in C for {why}{located(call)}"


def _program(function: Function, symbol: str, call: Call, routine: Routine) -> Program:
    """The program of *call* by *routine*: buffers for what it reads and fills."""
    params = [(p, t) for p in function.params for t in tensor_types(p.checked_type)]
    constants = list(dict.fromkeys(arg for arg in call.args if isinstance(arg, Constant)))
    tensors = {p: placeholder(shape_of(t), t.dtype, p.name_hint) for p, t in params}
    known = {c: placeholder(c.data.shape, c.data.dtype, f"const_{k}", c.data.numpy()) for k, c in enumerate(constants)}
    reads = [{**tensors, **known}[arg] for arg in call.args]
    results = tensor_types(call.checked_type)
    outputs = [Tensor(f"output_{k}", shape_of(t), t.dtype) for k, t in enumerate(results)]
    assert isinstance(call.op, Op) and call.attrs is not None
    origin = tuple(span_names(function.span) or span_names(call.span))
    body = routine.write(Site(call.attrs, reads, outputs, _place(call.op.name, origin)))
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
        tuple(_spec(tensors[p].name, t) for p, t in params),
        tuple(_spec(t.name, ty) for t, ty in zip(outputs, results, strict=True)),
        tuple(TensorSpec(f"{symbol}_const_{k}", c.data.shape, c.data.dtype) for k, c in enumerate(constants)),
        group.checks,
    )
    pairs = tuple((known[c], c.data) for c in constants)
    return Program(symbol, signature, tuple(tensors.values()), pairs, tuple(outputs), (), group)


def _place(operator: str, origin: tuple[str, ...]) -> str:
    return f"node {', '.join(origin)} ({operator})" if origin else operator


def _spec(name: str, ty: TensorType) -> TensorSpec:
    return TensorSpec(name, tuple(d if isinstance(d, int) else d.name for d in ty.shape), ty.dtype)
