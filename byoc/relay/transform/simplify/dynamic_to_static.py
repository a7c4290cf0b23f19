"""Operators that take a shape, axes or bounds as tensors become the static ones where those tensors are known.

``dyn.reshape`` needs less: one unknown size becomes -1, and a size that stands in the same place in the input 0. It is
a step of FoldConstant, and the pass DynamicToStatic. Source: ``relay.transform.DynamicToStatic``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS, Op
from byoc.ir.types import Any, TensorType
from byoc.relay.expr import Call, Constant
from byoc.relay.transform.simplify.shape_values import ShapeValues


@dataclass(frozen=True)
class StaticForm:
    """The static operator, and which argument of the dynamic one becomes which attribute (*scalars* are one number)."""

    name: str
    attributes: dict[int, str]
    scalars: frozenset[str] = frozenset()


# the dynamic operators of which every tensor that turns into an attribute must be constant
STATIC_FORMS: dict[str, StaticForm] = {
    "dyn.reshape": StaticForm("reshape", {1: "newshape"}),
    "dyn.expand_dims": StaticForm("expand_dims", {1: "axis"}, frozenset({"axis"})),
    "dyn.squeeze": StaticForm("squeeze", {1: "axis"}),
    "dyn.broadcast_to": StaticForm("broadcast_to", {1: "shape"}),
    "dyn.tile": StaticForm("tile", {1: "reps"}),
    "dyn.strided_slice": StaticForm("strided_slice", {1: "begin", 2: "end", 3: "strides"}),
    "dyn.full": StaticForm("full", {1: "shape"}),
    "dyn.zeros": StaticForm("zeros", {0: "shape"}),
    "dyn.ones": StaticForm("ones", {0: "shape"}),
    "dyn.topk": StaticForm("topk", {1: "k"}, frozenset({"k"})),
    "dyn.one_hot": StaticForm("one_hot", {3: "depth"}, frozenset({"depth"})),
    "dyn.nn.pad": StaticForm("nn.pad", {1: "pad_width"}),
    "dyn.nn.upsampling": StaticForm("nn.upsampling", {1: "scale_h", 2: "scale_w"}, frozenset({"scale_h", "scale_w"})),
    "dyn.nn.upsampling3d": StaticForm(
        "nn.upsampling3d", {1: "scale_d", 2: "scale_h", 3: "scale_w"}, frozenset({"scale_d", "scale_h", "scale_w"})
    ),
    "dyn.sparse_to_dense": StaticForm("sparse_to_dense", {3: "output_shape"}),
    "dyn.image.resize2d": StaticForm("image.resize2d", {1: "size", 2: "roi"}),
}


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


def make_static(call: Call, values: ShapeValues) -> Call:
    """The static form of a typed *call* of a dynamic operator whose shape, axes or bounds are known; else *call*."""
    form = STATIC_FORMS.get(call.op.name) if isinstance(call.op, Op) else None
    if form is None or form.name not in OPS:
        return call
    if form.name == "reshape":
        items = values.get(call.args[1])
        allowzero = call.attrs is not None and bool(call.attrs.as_dict().get("allowzero"))
        dims = None if items is None else _reshape_dims(call.args[0], items.reshape(-1), allowzero)
        return call if dims is None else _static_call(call, form, {"newshape": dims})
    found: dict[str, object] = {}
    for index, name in form.attributes.items():
        arg = call.args[index]
        if not isinstance(arg, Constant):
            return call
        array = arg.data.numpy()
        found[name] = array.reshape(-1)[0].item() if name in form.scalars else array.tolist()
    return _static_call(call, form, found)
