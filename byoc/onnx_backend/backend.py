"""The backend: a model is compiled for a device, and run on arrays in the order of its inputs.

Devices are ``CPU`` (generated C), ``OPENCL`` (what OpenCL takes, the rest on the host) and ``NUMPY`` (the interpreter
of the graph language on numpy kernels, which needs no compiler). What byoc does not take is refused by
:class:`ModelRefusedError`, which ONNX's test runner counts as skipped. Source: ``onnx.backend.base.Backend``.
"""

from __future__ import annotations

import importlib
import unittest
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.driver.compiler.entry import compile as compile_model
from byoc.driver.model import module_of
from byoc.errors import CompilerNotFoundError, DeviceError, InputError, UserError
from byoc.ir.module import IRModule
from byoc.ir.types import TupleType, Type
from byoc.onnx_backend.node_model import node_model
from byoc.relay.expr import Function
from byoc.relay.interpreter import evaluate
from byoc.relay.op.sequence import is_any_rank, is_optional
from byoc.runtime.library import Library

TARGETS: Mapping[str, Sequence[str]] = {"CPU": ("c",), "OPENCL": ("opencl", "c")}
NUMPY = "NUMPY"
DEVICES = (*TARGETS, NUMPY)
TOLERANCES = ("rtol", "atol")  # which the test runner hands to prepare, and uses itself
CONSTANT_WANTED = "must be a constant"  # in the refusal of an input that is known only when the model runs
LARGEST_LIST = 16  # elements of what is a list of numbers (axes, sizes, k), not a tensor


class ModelRefusedError(UserError, unittest.SkipTest):
    """A model that byoc does not take, or not for this device: the sentence says which operator, version and reason.

    It is a skipped test to ``unittest`` and pytest, as ONNX's runner has it for what a backend does not implement.
    """


class PreparedModel(BackendRep):
    """A *model* that is ready to run. ``library`` is what was compiled; None on device ``NUMPY``."""

    def __init__(self, model: ModelProto, program: Library | IRModule):
        self.library = program if isinstance(program, Library) else None
        self.model = model
        self._program = program
        self._inputs = input_names(model)
        self._outputs = [o.name for o in model.graph.output]

    def run(self, inputs: object, **kwargs: object) -> tuple[Any, ...]:
        """The outputs, which are also found by name: ``run([x])["y"]``.

        Args:
            inputs: the arrays in the order of the graph's inputs (those without initialisers), or by name; for a
                model of one input also the array itself.
            kwargs: nothing; the interface has them.

        Raises:
            InputError: too few or too many inputs, or one of another type or shape.
        """
        if kwargs:
            raise InputError(f"a prepared model takes its inputs alone, got {', '.join(kwargs)}")
        given = self._named(inputs)
        found = self._evaluated(given) if self.library is None else self.library.run(given)
        values = [np.asarray(v) if isinstance(v, np.generic) else v for v in found]
        outputs: Callable[..., tuple[Any, ...]] = namedtupledict("Outputs", self._outputs)
        return outputs(*values)

    def _evaluated(self, given: Mapping[str, object]) -> Sequence[object]:
        """The outputs by the interpreter; an input that was a constant to the importer is no parameter.

        An optional is there a sequence of none or one.
        """
        assert isinstance(self._program, IRModule)
        main = self._program["main"]
        assert isinstance(main, Function)
        inputs = {param.name_hint: given[param.name_hint] for param in main.params}
        for param in main.params:
            if is_optional(param.checked_type):
                value = inputs[param.name_hint]
                inputs[param.name_hint] = [] if value is None else [value]
        with np.errstate(all="ignore"):
            found = evaluate(self._program, inputs)
        ty = main.body.checked_type
        values: list[tuple[object, Type]] = [(found, ty)]
        if isinstance(ty, TupleType) and isinstance(found, list) and len(self._outputs) > 1:
            values = list(zip(found, ty.fields, strict=True))
        return [_of_optional(v) if is_optional(t) or is_any_rank(t) else v for v, t in values]

    def _named(self, inputs: object) -> dict[str, object]:
        if isinstance(inputs, Mapping):
            return dict(inputs)
        values = [inputs] if isinstance(inputs, (np.ndarray, np.generic)) else list(_sequence(inputs))
        if len(values) != len(self._inputs):
            names = ", ".join(self._inputs) or "(none)"
            raise InputError(f"the model takes {len(self._inputs)} inputs ({names}), got {len(values)}")
        return dict(zip(self._inputs, values, strict=True))


class ByocBackend(Backend):
    """byoc behind ONNX's interface of backends; all methods are of the class."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether this machine has *device*: ``CPU`` needs a C compiler, ``OPENCL`` an OpenCL device too."""
        name = _device_name(device)
        if name == NUMPY:
            return True
        return name in TARGETS and _has_compiler() and (name == "CPU" or _has_opencl())

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether byoc reads *model* and has its operators; nothing is compiled."""
        if not cls.supports_device(device):
            return False
        try:
            module_of(model)
        except UserError:
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Compile *model* for *device*; the result's ``run`` takes arrays.

        Args:
            model: the model, as ``onnx.load`` gives it.
            device: one of ``DEVICES``; a number behind it (``CPU:0``) is not looked at.
            kwargs: options of ``byoc.compile``; ``rtol`` and ``atol`` are the test runner's own.

        Raises:
            ModelRefusedError: for what byoc does not take.
            UserError: for a device that byoc does not know.
            CompilerNotFoundError, DeviceError: where this machine lacks the device.
        """
        options = {name: value for name, value in kwargs.items() if name not in TOLERANCES}
        name = _device_name(device)
        if name not in DEVICES:
            raise UserError(f"device {device!r} is none of byoc's: {', '.join(DEVICES)}")
        try:
            if name == NUMPY:
                return PreparedModel(model, module_of(model, **options))
            return PreparedModel(model, compile_model(model, **{"targets": TARGETS[name], **options}))
        except (CompilerNotFoundError, DeviceError):
            raise
        except UserError as error:
            raise ModelRefusedError(str(error)) from error

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of *model* on *inputs*: ``prepare`` and ``run``."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one operator.

        Args:
            node: the node.
            inputs: an array for each input, or None for one that is left out.
            device: one of ``DEVICES``.
            outputs_info: dtype and shape of each output, which nothing here needs.
            kwargs: ``opset_version``, of the node's domain (default: the newest); else as for ``prepare``.

        Raises:
            ModelRefusedError: for what byoc does not take, and for a node that ONNX does not allow.
        """
        model, given = node_model(node, inputs, kwargs.pop("opset_version", None))
        prepared, rest = prepare_for(model, given, device, **kwargs)
        return prepared.run(rest)


def prepare_for(
    model: ModelProto, inputs: Sequence[object], device: str, **options: Any
) -> tuple[PreparedModel, Sequence[object]]:
    """*model* prepared for these *inputs*, and those that it still takes: fewer where some had to be constants."""
    try:
        return ByocBackend.prepare(model, device, **options), inputs
    except ModelRefusedError as error:
        if CONSTANT_WANTED not in str(error):
            raise
        fixed, rest = with_constants(model, inputs)
        return ByocBackend.prepare(fixed, device, **options), rest


def with_constants(model: ModelProto, inputs: Sequence[object]) -> tuple[ModelProto, Sequence[object]]:
    """*model* with its short lists of numbers (axes, sizes, k) as initialisers, as exporters write them; and the inputs
    that are left.
    """
    fixed = ModelProto()
    fixed.CopyFrom(model)
    rest = []
    for index, (name, value) in enumerate(zip(input_names(model), inputs, strict=True)):
        array = np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else None
        if index and array is not None and array.ndim <= 1 and array.size <= LARGEST_LIST:
            fixed.graph.initializer.append(numpy_helper.from_array(array, name))
        else:
            rest.append(value)
    return fixed, rest


def input_names(model: ModelProto) -> list[str]:
    """The inputs of the graph that have no initialiser, in their order."""
    weights = {t.name for t in model.graph.initializer}
    return [v.name for v in model.graph.input if v.name not in weights]


def _of_optional(value: object) -> object:
    assert isinstance(value, list)
    return value[0] if value else None


def _sequence(inputs: object) -> Sequence[object]:
    if not isinstance(inputs, Sequence) or isinstance(inputs, (str, bytes)):
        raise InputError(f"inputs are a list of arrays, or arrays by name, got {type(inputs).__name__}")
    return inputs


def _device_name(device: str) -> str:
    return device.partition(":")[0].upper()


def _has_compiler() -> bool:
    try:
        find_compiler()
    except CompilerNotFoundError:
        return False
    return True


def _has_opencl() -> bool:
    try:
        listed = importlib.import_module("byoc.runtime.opencl.devices").list_devices()
    except (ImportError, DeviceError):
        return False
    return bool(listed)
