"""Calls as bytecode: of functions of the program, of constructors, and of what the library computes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

import numpy as np

from byoc.driver.bytecode.function_builder import CodeBuilder
from byoc.driver.bytecode.program import ProgramBuilder
from byoc.driver.bytecode.reshapes import newshape_of
from byoc.driver.bytecode.tensors import Part, Tensors
from byoc.driver.host import operators_name
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.ir.traits import OpKind
from byoc.ir.types import TensorType, TupleType, Type, tensor_types
from byoc.relay.expr import Call, Function, Tuple, Var
from byoc.relay.narrowing import operator_of
from byoc.relay.traverse import post_order
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.vm.instructions import (
    AllocADT,
    Invoke,
    InvokeClosure,
    InvokePacked,
    LoadConst,
    ReshapeTensor,
    SequenceStep,
)

_RESHAPE, _DYN_RESHAPE = "reshape", "dyn.reshape"


class Destination(Protocol):
    """The function that calls are emitted to, and what it knows of values."""

    program: ProgramBuilder
    code: CodeBuilder
    tensors: Tensors
    values: dict[RelayExpr, int]

    def register(self, part: Part) -> int:
        """The register that holds *part*."""

    def parts_of(self, node: RelayExpr) -> Part:
        """The parts of a tuple where they are known, else the expression."""

    def is_inlined(self, function: Function) -> bool:
        """True for a unit that is called where it stands, so that no closure of it is made."""


def emit_call(to: Destination, call: Call) -> None:
    """The code of *call*, whose value *to* knows afterwards."""
    rule = _RULES.get(type(call.op))
    if rule is None or (isinstance(call.op, Function) and not to.is_inlined(call.op)):
        _emit_closure(to, call)
    else:
        rule(to, call)


def _emit_closure(to: Destination, call: Call) -> None:
    callee = to.register(call.op)
    args = tuple([to.register(arg) for arg in call.args])
    to.values[call] = to.code.into_new(lambda r: InvokeClosure(r, callee, args))


def _emit_global(to: Destination, call: Call) -> None:
    callee = call.op
    assert isinstance(callee, GlobalVar)
    region = to.program.regions.get(callee)
    if region is not None:
        _emit_packed(to, call, str(region.attrs["global_symbol"]), region)
        return
    place = to.program.place_of(callee)
    args = tuple([to.register(arg) for arg in call.args])
    to.values[call] = to.code.into_new(lambda r: Invoke(r, place, args))


def _emit_constructor(to: Destination, call: Call) -> None:
    fields = tuple([to.register(arg) for arg in call.args])
    constructor = call.op
    assert isinstance(constructor, Constructor)
    to.values[call] = to.code.into_new(lambda r: AllocADT(r, constructor.tag, fields))


def _emit_unit(to: Destination, call: Call) -> None:
    function = call.op
    assert isinstance(function, Function)
    if not _emit_reshape(to, call, function):
        _emit_packed(to, call, to.program.host.symbol_of(function, operators_name(function)), function)


def _emit_sequence(to: Destination, call: Call, operator: Op) -> None:
    """An operator of sequences, which the machine itself does."""
    args = tuple([to.register(arg) for arg in call.args])
    settings = call.attrs.as_dict() if call.attrs is not None and operator.name != "sequence.unwrap" else {}
    text = json.dumps({key: int(v) if isinstance(v, bool) else v for key, v in settings.items()})
    to.values[call] = to.code.into_new(lambda r: SequenceStep(r, args, operator.name, text))


def _emit_operator(to: Destination, call: Call) -> None:
    """An operator that stands alone: a function of it alone, over the fields of tuples that are written out."""
    operator = operator_of(call)
    if operator.traits.kind is OpKind.SEQUENCE:
        _emit_sequence(to, call, operator)
        return
    params: list[Var] = []

    def param(ty: Type) -> Var:
        params.append(Var(f"p{len(params)}", ty))
        return params[-1]

    args: list[RelayExpr] = []
    for arg in call.args:
        if isinstance(arg, Tuple):
            new = Tuple([param(field.checked_type) for field in arg.fields])
            new._checked_type = arg.checked_type
            args.append(new)
        else:
            args.append(param(arg.checked_type))
    body = Call(call.op, args, call.attrs, span=call.span)
    body._checked_type = call.checked_type
    function = Function(params, body, attrs={"Primitive": 1}, span=call.span)
    single = Call(function, [f for a in call.args for f in (a.fields if isinstance(a, Tuple) else (a,))])
    single._checked_type = call.checked_type
    _emit_unit(to, single)
    if single in to.values:
        to.values[call] = to.values[single]
    if single in to.tensors.parts:
        to.tensors.parts[call] = to.tensors.parts[single]


def _emit_packed(to: Destination, call: Call, symbol: str, function: Function) -> None:
    args: list[int] = []
    for arg in call.args:
        parts = to.parts_of(arg) if isinstance(arg.checked_type, TupleType) else arg
        args += to.tensors.flat(parts, arg.checked_type)
    outputs = tuple([to.code.new_register() for _ in tensor_types(call.checked_type)])
    to.code.emit(InvokePacked(to.program.symbol(symbol, function), tuple(args), outputs))
    made = to.tensors.structured(call.checked_type, iter(outputs))
    if isinstance(made, int):
        to.values[call] = made
    else:
        to.tensors.parts[call] = made


def _emit_reshape(to: Destination, call: Call, function: Function) -> bool:
    """A function that only gives its first argument another shape, where the new shape can be said."""
    node = function.body
    only = node if isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == _DYN_RESHAPE else None
    if only is not None and not _allows_zero(only) and list(only.args) == list(function.params):
        data, shape = (to.register(arg) for arg in call.args)
        to.values[call] = to.code.into_new(lambda r: ReshapeTensor(r, data, shape))
        return True
    inner = [n for n in post_order(node) if isinstance(n, Call)]
    if not inner or not all(isinstance(n.op, Op) and n.op.get_attr("TReshapeOp") for n in inner):
        return False
    if len(function.params) != 1 or not isinstance(function.body.checked_type, TensorType):
        return False
    newshape = _newshape(inner, function.body.checked_type)
    if newshape is None:
        return False
    index = to.program.constant(NDArray(np.array(newshape, "int64")))
    data, shape = to.register(call.args[0]), to.code.into_new(lambda r: LoadConst(r, index))
    to.values[call] = to.code.into_new(lambda r: ReshapeTensor(r, data, shape))
    return True


def _newshape(calls: list[Call], ty: TensorType) -> tuple[int, ...] | None:
    """What reshapes to *ty*: its numbers, one of which may be inferred, or what *calls* of ``reshape`` ask for."""
    unknown = [dim for dim in ty.shape if not isinstance(dim, int)]
    if not unknown and 0 not in ty.shape:
        return tuple(int(dim) for dim in ty.shape)
    if len(unknown) == 1 and 0 not in ty.shape:
        return tuple(int(dim) if isinstance(dim, int) else -1 for dim in ty.shape)
    if any(operator_of(call).name != _RESHAPE or _allows_zero(call) for call in calls):
        return None
    if len(calls) == 1:
        return tuple(int(n) for n in calls[0].attrs.newshape)
    return newshape_of(calls[-1])


def _allows_zero(call: Call) -> bool:
    return bool(getattr(call.attrs, "allowzero", False))


_RULES: dict[type, Callable[[Destination, Call], None]] = {
    GlobalVar: _emit_global,
    Constructor: _emit_constructor,
    Function: _emit_unit,
    Op: _emit_operator,
}
