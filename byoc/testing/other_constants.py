"""A region with other constants beside one: it overwrites what a module keeps where all regions of a model share it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Constant, Function, constant
from byoc.relay.traverse import post_order, substitute
from byoc.testing.core.case import Case
from byoc.testing.core.difference import is_float


def with_other_constants(case: Case) -> Case | None:
    """*case* with half of each constant in floats; None where it has none of at least one element."""
    others: dict[RelayExpr, RelayExpr] = {
        node: constant((node.data.numpy() * 0.5).astype(node.data.numpy().dtype))
        for node in post_order(case.function.body)
        if isinstance(node, Constant) and is_float(node.data.numpy().dtype) and np.any(node.data.numpy())
    }
    if not others:
        return None
    function = case.function
    body = substitute(function.body, others)
    changed = Function(function.params, body, function.ret_type, function.type_params, function.attrs)
    return replace(case, function=infer_function(changed))
