"""Fully connected layers that read a transposed parameter get it transposed once.

Source: ``relay.data_dep_optimization.simplify_fc_transpose``.
"""

from __future__ import annotations

import numpy as np

from byoc.annex.analysis.extraction import search_fc_transpose
from byoc.ir.module import IRModule
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function
from byoc.relay.transform.simplify.fc_transpose import SimplifyFCTranspose
from byoc.runtime.core.ndarray import NDArray, from_any


def convert(func: Function, params: dict[str, NDArray]) -> tuple[Function, dict[str, NDArray]]:
    """*func* with ``nn.dense(x, transpose(w, [1, 0]))`` as ``nn.dense(x, w.T)``; in *params* ``w.T`` stands for ``w``.

    *params* is changed, and returned. Parameters without a value there stay as they are.
    """
    names = [name for name in search_fc_transpose(func) if name in params]
    new = as_function(SimplifyFCTranspose(names)(IRModule.from_expr(func))["main"])
    kept = {param.name_hint for param in new.params}
    for name in (n for n in names if f"{n}.T" in kept):
        params[f"{name}.T"] = NDArray(np.asarray(np.asarray(from_any(params[name])).T, order="C"))
        if name not in kept:
            del params[name]
    return new, params
