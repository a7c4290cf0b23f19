"""Operators that take a shape, axes or bounds as tensors become the static ones where those tensors are known.

``dyn.reshape`` needs less: one unknown size becomes -1, and a size that stands in the same place in the input 0. It is
a step of FoldConstant, and the pass DynamicToStatic. Source: ``relay.transform.DynamicToStatic``.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS, Op
from byoc.ir.traits import StaticForm
from byoc.ir.types import Any, TensorType, tensor_types
from byoc.relay.expr import Call, Constant
from byoc.relay.op.core.known_shapes import FKNOWN_SHAPE, ShapeRule
from byoc.relay.transform.simplify.shape_values import ShapeValues


def _static_call(call: Call, form: StaticForm, values: dict[str, object]) -> Call:
    op = OPS[form.name]
    if op.attrs_type is None:
        raise UserError(f"{form.name} takes no attributes, but {call.op} should become one")
    names = op.attrs_type.__dataclass_fields__
    old = call.attrs.as_dict() if call.attrs is not None else {}
    attrs = {k: v for k, v in old.items() if k in names}
    args = [a for k, a in enumerate(call.args) if k not in form.attributes]
    return Call(op, args, op.attrs_type(**{**attrs, **values}), span=call.span)


def _reshape_dims(data: RelayExpr, items: np.ndarray, allowzero: bool) -> tuple[int, ...] | None:
    """The static ``newshape``, with 0 for a size taken from the input and -1 for one that is unknown."""
    shape = data.checked_type.shape if isinstance(data.checked_type, TensorType) else ()
    dims: list[int] = []
    copied_so_far = True  # 0 counts places of the input, which the other special numbers would shift
    for k, item in enumerate(items):
        if isinstance(item, int):
            copied_so_far = copied_so_far and item >= -1
            dims.append(item)
        elif isinstance(item, Any) and k < len(shape) and shape[k] == item and copied_so_far and not allowzero:
            dims.append(0)
        else:
            dims.append(-1)
    unknown = dims.count(-1)
    partly = any(not isinstance(item, int) for item in items)
    if unknown > 1 or (partly and unknown and allowzero and 0 in dims):
        return None
    return tuple(dims)


def _with_known_shape(call: Call, values: ShapeValues) -> Call:
    """A typed *call* whose result has names for what is known of its shape; itself where nothing more is."""
    rule: ShapeRule | None = call.op.get_attr(FKNOWN_SHAPE) if isinstance(call.op, Op) else None
    if rule is None or call.attrs is None:
        return call
    result = tensor_types(call.checked_type)[0]
    if result.is_symbolic:
        return call

    found = rule(call, lambda index: values.elements(call.args[index]))
    if found is None or not any(isinstance(d, int) or d.name for d in found):
        return call
    from byoc.relay.op.core.named_dims import dim_texts

    attrs = dataclasses.replace(call.attrs, **{"known": dim_texts(found)})
    return Call(call.op, call.args, attrs, None, call.span)


def make_static(call: Call, values: ShapeValues) -> Call:
    """The static form of a typed *call* of a dynamic operator whose shape, axes or bounds are known; else *call*, with
    names for what is known of its result.
    """
    return _as_static(call, values) or _with_known_shape(call, values)


def _as_static(call: Call, values: ShapeValues) -> Call | None:
    form = call.op.traits.static_form if isinstance(call.op, Op) else None
    if form is None or form.name not in OPS:
        return None
    if form.name == "reshape":
        items = values.get(call.args[1])
        allowzero = call.attrs is not None and bool(call.attrs.as_dict().get("allowzero"))
        dims = None if items is None else _reshape_dims(call.args[0], items.reshape(-1), allowzero)
        return None if dims is None else _static_call(call, form, {"newshape": dims})
    found: dict[str, object] = {}
    for index, name in form.attributes.items():
        arg = call.args[index]
        if not isinstance(arg, Constant):
            return None
        array = arg.data.numpy()
        found[name] = array.reshape(-1)[0].item() if name in form.scalars else array.tolist()
    return _static_call(call, form, found)
