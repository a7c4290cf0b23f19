"""The module that a user asks byoc to compile or to plan."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from onnx import ModelProto

from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.ir.passes.transform import PassContext
from byoc.ir.passes.verification import check_made
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.frontend.onnx.load import ModelSource
from byoc.relay.frontend.onnx_importer import input_defaults

PROGRAM_ENDING = ".pt2"
PROGRAM_HOME = "torch.export"  # of the class ExportedProgram
ESTIMATOR_HOME = "sklearn."  # of the class BaseEstimator
M = TypeVar("M")


def is_torch_program(model: object) -> bool:
    """Whether *model* is an ``ExportedProgram``, or the path of a ``.pt2`` file; torch is not imported."""
    if isinstance(model, (str, os.PathLike)):
        return Path(model).suffix == PROGRAM_ENDING
    kind = type(model)
    return kind.__name__ == "ExportedProgram" and kind.__module__.startswith(PROGRAM_HOME)


def is_estimator(model: object) -> bool:
    """Whether *model* is an estimator of scikit-learn, a pipeline included; scikit-learn is not imported."""
    kinds = type(model).__mro__
    return any(k.__name__ == "BaseEstimator" and k.__module__.startswith(ESTIMATOR_HOME) for k in kinds)


def as_onnx(model: M) -> M | ModelProto:
    """*model* as an ONNX model where it is PyTorch's or scikit-learn's, else as it is.

    Raises ImportModelError for one that cannot be converted, UnavailableError without what converts it.
    """
    if is_torch_program(model):
        return cast(ModelProto, importlib.import_module("byoc.driver.torch_program").onnx_of(model))
    if is_estimator(model):
        converter = importlib.import_module("byoc.driver.sklearn_model")
        return cast(ModelProto, converter.onnx_of_estimator(model))
    return model


def input_defaults_of(model: ModelSource | IRModule, names: Sequence[str] | str) -> dict[str, np.ndarray]:
    """The values of the initialisers *names* of *model*, of which :func:`module_of` made inputs."""
    source = as_onnx(model)
    return {} if isinstance(source, IRModule) else input_defaults(source, _listed(names))


def _listed(names: Sequence[str] | str) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def module_of(
    model: ModelSource | IRModule,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    overridable: Sequence[str] | str = (),
) -> IRModule:
    """*model* itself where it is a module, else what is imported of it with *shapes* and inputs *overridable*.

    Raises:
        UserError: a module with a variable that nothing binds, or that is bound twice; *overridable* for a module.
        ImportModelError: a model that cannot be read.
    """
    model = as_onnx(model)
    if not isinstance(model, IRModule):
        mod = import_onnx(model, shapes=shapes, overridable=_listed(overridable))
        return check_made(mod, "the importer", PassContext.current().config)
    if overridable:
        raise UserError("overridable names initialisers of an ONNX model, and a module has parameters: leave it out")
    problem = importlib.import_module("byoc.relay.verify.verifier").scope_problem(model)
    if problem is not None:
        raise UserError(f"the module that is given is not well formed: {problem}")
    return model
