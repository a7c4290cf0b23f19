"""Passes over one expression, and small queries about it, for tests. Source: ``relay.testing``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.transform import Pass, PassContext, Sequential
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function
from byoc.relay.std.prelude import Prelude
from byoc.relay.transform import InferType
from byoc.relay.traverse import post_order
from byoc.runtime.core.ndarray import NDArray, numpy_dtype


def run_opt_pass(expr: RelayExpr, opt_pass: Pass | Sequence[Pass], import_prelude: bool = False) -> RelayExpr:
    """*expr* after the pass, or after a list of them at level 3: a function where it is one, else the body.

    Source: ``run_opt_pass``, and the functions of that name in Relay's tests of layouts, which take lists. Types are
    inferred first, for the passes that ask for them. Raises UserError for what is no pass.
    """
    step = opt_pass if isinstance(opt_pass, Pass) else Sequential(_passes(opt_pass))
    mod = IRModule.from_expr(expr)
    if import_prelude:
        Prelude(mod)
    if step is opt_pass:
        main = step(InferType()(mod))["main"]
    else:
        with PassContext(opt_level=3):  # or layouts would stay as they are without a word
            main = step(InferType()(mod))["main"]
    return main if isinstance(expr, Function) else as_function(main).body


def _passes(given: object) -> Sequence[Pass]:
    if not isinstance(given, (list, tuple)) or not all(isinstance(step, Pass) for step in given):
        raise UserError(f"run_opt_pass takes a pass or a list of passes, got {given!r}")
    return given


def run_infer_type(expr: RelayExpr) -> RelayExpr:
    """*expr* with its types. Raises TypeInferenceError where they do not fit. Source: ``run_infer_type``."""
    return run_opt_pass(expr, InferType())


def count_ops(expr: RelayExpr) -> Counter[str]:
    """How often each operator is called in *expr*, by its name; shared calls count once. Source: ``count_ops``."""
    calls = (node for node in post_order(expr) if isinstance(node, Call))
    return Counter(call.op.name for call in calls if isinstance(call.op, Op))


def rand(dtype: str, *shape: int) -> NDArray:
    """An array of numbers in [0, 1), cast to *dtype*. Source: ``relay.testing.rand``."""
    return NDArray(np.asarray(np.random.rand(*shape)).astype(numpy_dtype(dtype)))
