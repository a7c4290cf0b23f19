"""Calls whose results have sizes that elements say, as calls that put these at the front of tensors of known sizes.

Such a call becomes one of its operator's ``leading_form``, for which code can be generated, with ``sequence.leading``
behind it, which the virtual machine does without a copy. Ensures: the same values.
"""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, get_op
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Call, Function, Tuple, TupleGetItem
from byoc.relay.op import sequence
from byoc.relay.traverse import rewrite


def with_leading_forms(mod: IRModule) -> IRModule:
    """The typed *mod* without calls of operators that have such a form."""
    result = mod.shallow_copy()
    for var, function in mod.functions.items():
        if not isinstance(function, Function) or "Compiler" in function.attrs:
            continue
        body = rewrite(function.body, _leading)
        declared = function.declared_ret_type
        result[var] = Function(function.params, body, declared, function.type_params, function.attrs, function.span)
    return infer_module(result)


def _leading(before: RelayExpr, after: RelayExpr) -> RelayExpr:
    form = before.op.traits.leading_form if isinstance(before, Call) and isinstance(before.op, Op) else None
    if form is None or not isinstance(after, Call):
        return after
    axis = getattr(after.attrs, form.axis) if form.axis else 0
    operator = get_op(form.name)
    given = {} if after.attrs is None else after.attrs.as_dict()
    attrs = None if operator.attrs_type is None else operator.attrs_type(**given)
    found = Call(operator, after.args, attrs, span=after.span)
    results = tensor_types(before.checked_type)
    shape = TupleGetItem(found, len(results))
    parts = [sequence.leading(TupleGetItem(found, k), shape, axis) for k in range(len(results))]
    return parts[0] if isinstance(before.checked_type, TensorType) else Tuple(parts, span=after.span)
