"""The module that a user asks byoc to compile or to plan."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence

from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.ir.passes.transform import PassContext
from byoc.ir.passes.verification import check_made
from byoc.relay.frontend.onnx import import_onnx


def module_of(model: object, shapes: Mapping[str, Sequence[int | str]] | None = None) -> IRModule:
    """*model* itself where it is a module, else what is imported of it with *shapes*.

    Raises:
        UserError: a module with a variable that nothing binds, or that is bound twice.
        ImportModelError: a model that cannot be read.
    """
    if not isinstance(model, IRModule):
        mod = import_onnx(model, shapes=shapes)  # type: ignore[arg-type]
        return check_made(mod, "the importer", PassContext.current().config)
    problem = importlib.import_module("byoc.relay.verify.verifier").scope_problem(model)
    if problem is not None:
        raise UserError(f"the module that is given is not well formed: {problem}")
    return model
