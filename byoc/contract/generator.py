"""The usual steps of a code generator for whole regions, of which a vendor writes those that are about the device.

A subclass of :class:`RegionGenerator` has a hook for each operator and composite that it takes; what hooks give stands
for tensors of the vendor's network (a layer, a register, a name)::

    class AcmeGenerator(RegionGenerator[int]):
        def construct(self):
            self.net = acme.Network()

        def input(self, spec):
            return self.net.add_input(spec.shape)

        def constant(self, spec, array):
            return self.net.add_weights(array)

        @makes("nn.dense", "acme.dense_relu")
        def dense(self, node, data, weight):
            return self.net.add_dense(data, weight, relu=node.name == "acme.dense_relu")

        def compile(self, results):
            return AcmeModule(self.symbol, self.net.build(outputs=results))

    def compile(self, function, options):  # of the backend
        return AcmeGenerator(function, options).generate()

The order is that of Relay's integrations (construct the network, infer tensors, a hook per call, outputs, options,
compile; source: the codegens of Ethos-N and TensorRT). Tuples, projections and repeated values make no call of a hook:
inputs, constants and outputs are flattened, as the module's function takes and gives them. A call without a hook, which
the constraints should have refused, is a CompileError that names it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from byoc.contract.backend import constants_by_symbol
from byoc.contract.hooks import HookTable
from byoc.contract.region_steps import Step, steps_of
from byoc.contract.registration import check_hooks
from byoc.contract.signature import signature_of, spec_of
from byoc.contract.verdict import callee_name, operator_in, place_of
from byoc.errors import CompileError
from byoc.ir.attrs import Attrs
from byoc.ir.span import span_names
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Function
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.modules.module import Module
from byoc.runtime.region.record import BUILD, CONVERT, marked

Value = TypeVar("Value")


@dataclass(frozen=True)
class RegionNode:
    """A call of the region: an operator's, or a composite's.

    ``name`` is the operator's or the composite's, ``attrs`` the operator's attributes (None of a composite), ``nodes``
    the ONNX nodes, ``inputs`` and ``outputs`` the tensors that go in and come out.
    """

    call: Call
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def name(self) -> str:
        return callee_name(self.call)

    @property
    def attrs(self) -> Attrs | None:
        attrs: Attrs | None = self.call.attrs
        return attrs

    @property
    def nodes(self) -> tuple[str, ...]:
        return span_names(self.call.span)

    def operator(self, name: str) -> Call:
        """The call of the operator *name* inside of a composite, the first. Raises CompileError where there is none."""
        return operator_in(self.call, name)


class RegionGenerator(HookTable, Generic[Value]):
    """Turns one region into a module, step by step; make one for each region and call :meth:`generate`.

    Attributes:
        symbol: what the module's function must be called.
        options: those that ``Backend.compile`` was given.
        inputs, outputs: the tensors that the function takes and gives, in order, tuples flattened.
        constants: the region's constants by name, in the order in which they were met: ``<symbol>_const_<i>``.
    """

    def __init__(self, function: Function, options: Mapping[str, object] | None = None):
        self.function = infer_function(function)
        self.symbol = str(function.attrs["global_symbol"])
        self.options = dict(options or {})
        signature = signature_of(self.symbol, self.function, {})
        self.inputs, self.outputs = signature.inputs, signature.outputs
        self.constants: dict[str, NDArray] = {}

    def generate(self) -> Module:
        """The region's module.

        Raises CompileError for a call without a hook, PartitionError for a hook of what there is not, and what the
        steps raise.
        """
        with marked(CONVERT):
            check_hooks(str(self.function.attrs.get("Compiler", "")), self.named_hooks())
            self.construct()
            region = steps_of(self.function)
            values = [self._inferred(spec) for spec in self.inputs]
            for number, (name, data) in enumerate(region.constants.items(), len(values)):
                self.constants[name] = data
                values.append(self.constant(spec_of(name, region.types[number]), data.numpy()))
            for step in region.steps:
                given = step.given(self._hook_arity(step.name))
                values += self._made(step, [values[n] for n in given], [region.types[n] for n in given])
            results = [values[n] for n in region.outputs]
            for spec, value in zip(self.outputs, results, strict=True):
                self.output(spec, value)
        with marked(BUILD):
            module: object = self.compile(results)
            if not isinstance(module, Module):
                raise CompileError(
                    f"{type(self).__name__}.compile(results) gave a {type(module).__name__}, expected the module, as "
                    "in return AcmeModule(self.symbol, ...)"
                )
            if any(constants_by_symbol(module).values()) and not getattr(module, "constant_arrays", None):
                vars(module)["constant_arrays"] = dict(self.constants)  # which the driver takes
            return module

    # the steps ------------------------------------------------------------------------------------------------------

    def construct(self) -> None:
        """Make the empty network."""

    def input(self, spec: TensorSpec) -> Value:
        """The value for an input of the region."""
        raise NotImplementedError(f"{type(self).__name__} needs the method input")

    def constant(self, spec: TensorSpec, array: np.ndarray) -> Value:
        """The value for a constant, which is called ``spec.name``."""
        raise CompileError(f"{self.symbol}: {type(self).__name__} takes no constants: it needs the method constant")

    def infer(self, spec: TensorSpec, value: Value) -> None:
        """Declare *value*, of an input or a node, to the network: its shape and dtype."""

    def output(self, spec: TensorSpec, value: Value) -> None:
        """Mark *value* as an output, the next one. A value may be several outputs, or an input."""

    def compile(self, results: Sequence[Value]) -> Module:
        """The module; *results* are the values of its outputs."""
        raise NotImplementedError(f"{type(self).__name__} needs the method compile")

    # the walk -------------------------------------------------------------------------------------------------------

    def _inferred(self, spec: TensorSpec) -> Value:
        value = self.input(spec)
        self.infer(spec, value)
        return value

    def _hook_arity(self, name: str) -> int | None:
        """How many values the hook of *name* takes behind its node; None where it takes any, or there is no hook."""
        if name not in self._hooks:
            return None
        taken = [p.kind for p in inspect.signature(getattr(self, self._hooks[name])).parameters.values()]
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return None if inspect.Parameter.VAR_POSITIONAL in taken else sum(kind in positional for kind in taken) - 1

    def _made(self, step: Step, values: Sequence[Value], types: Sequence[TensorType]) -> list[Value]:
        call, name = step.call, step.name
        if name not in self._hooks:
            raise CompileError(
                f"{place_of(call)} was accepted, and {type(self).__name__} has no hook for it: write "
                f"one with @makes({name!r}), or have a constraint refuse it (it has {', '.join(self._hooks) or 'none'})"
            )
        inputs = [spec_of(f"in{k}", t) for k, t in enumerate(types)]
        outputs = [spec_of(f"{name}.{k}", t) for k, t in enumerate(tensor_types(call.checked_type))]
        hook = f"{type(self).__name__}.{self._hooks[name]}"
        made = getattr(self, self._hooks[name])(RegionNode(call, tuple(inputs), tuple(outputs)), *values)
        if made is None:
            raise CompileError(f"{hook} returned None for {place_of(call)}, expected what stands for its result")
        results: list[Value] = list(made) if isinstance(made, (tuple, list)) and len(outputs) != 1 else [made]
        if len(results) != len(outputs):
            raise CompileError(
                f"{hook} gave {len(results)} values for {place_of(call)}, which has {len(outputs)} outputs"
            )
        for spec, value in zip(outputs, results, strict=True):
            self.infer(spec, value)
        return results
