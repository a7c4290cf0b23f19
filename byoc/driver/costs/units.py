"""A kernel or a unit as a function of its own, to be built and timed, and the key under which equal ones are one."""

from __future__ import annotations

import hashlib
import re

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.types import TensorType
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Constant, Function, Tuple, Var
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import post_order, rewrite, substitute

INWARD, OUTWARD = (0, 2, 3, 1), (0, 3, 1, 2)
_SPAN = re.compile(r"\s*/\* span=.*?\*/")


def channels_innermost(function: Function) -> Function | None:
    """*function* over images whose second axis lies innermost, as the host's code keeps them; None without images.

    The reordering around it is what the host's choice of layouts takes away where it computes in that order.
    """
    if not any(_is_image(p) for p in function.params):
        return None
    typed = infer_function(function)
    given: dict[RelayExpr, RelayExpr] = {}
    params: list[Var] = []
    for param in typed.params:
        ty = param.checked_type
        shape = ty.shape if isinstance(ty, TensorType) and _is_image(param) else ()
        if isinstance(ty, TensorType) and shape:
            ty = TensorType([shape[a] for a in INWARD], ty.dtype)
        params.append(Var(param.name_hint, ty))
        given[param] = relay.transpose(params[-1], OUTWARD) if shape else params[-1]
    fields = typed.body.fields if isinstance(typed.body, Tuple) else (typed.body,)
    images = [_is_image(f) for f in fields]
    bodies = [substitute(f, given) for f in fields]
    results = [relay.transpose(b, INWARD) if image else b for b, image in zip(bodies, images, strict=True)]
    return Function(params, results[0] if len(results) == 1 else Tuple(results))


def _is_image(value: RelayExpr) -> bool:
    ty = value.checked_type
    return isinstance(ty, TensorType) and ty.is_static and len(ty.shape) == len(INWARD)


def key_of(function: Function) -> str:
    """64 hexadecimal digits: the same for functions that differ only in values of tensors and in their origins."""
    constants = [n for n in dict.fromkeys(post_order(function)) if isinstance(n, Constant) and n.data.ndim]
    given: dict[RelayExpr, Var] = {c: Var(f"c{k}", c.checked_type) for k, c in enumerate(constants)}
    closed = as_function(rewrite(function, lambda before, after: given.get(before, after)))
    plain = Function([*function.params, *given.values()], closed.body)
    text = _SPAN.sub("", IRModule({"main": plain}).astext(show_meta_data=False))
    return hashlib.sha256(text.encode()).hexdigest()
