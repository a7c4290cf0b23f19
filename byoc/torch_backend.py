"""``torch.compile(model, backend="byoc")``: graphs that PyTorch's compiler captures, run as byoc's libraries.

A graph goes through ``torch.export`` and ONNX. Parameters and buffers are constants of the library, which is made again
when one changes; so it is for each new shape of the inputs. What byoc does not take PyTorch runs itself, with a warning
that says why: gradients, graphs that change their inputs, operators without a converter. The entry point is
``torch_dynamo_backends``. Source: PyTorch's *Custom Backends*.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto

from byoc.driver.compiler.entry import compile as compile_model
from byoc.driver.torch_program import onnx_of, torch_module
from byoc.errors import ImportModelError, UserError, in_one_line
from byoc.runtime.core.small_types import BITS, extension_dtype
from byoc.runtime.library import Library

Key = tuple[object, ...]


def compile_graph(
    graph: Any, example_inputs: Sequence[object], *, options: Mapping[str, Any] | None = None, mode: object = None
) -> Callable[..., Sequence[object]]:
    """The function that runs a captured *graph*, a ``torch.fx.GraphModule``; it is compiled when it is called.

    Args:
        graph: what PyTorch captured.
        example_inputs: its inputs; parameters and buffers among them are recognised by their classes.
        options: those of :func:`byoc.compile`, as ``torch.compile(..., options={"targets": ["opencl"]})``.
        mode: PyTorch's, which says nothing to byoc.
    """
    return CapturedGraph(graph, [is_weight(value) for value in example_inputs], dict(options or {}))


@dataclass
class CapturedGraph:
    """A captured *graph*, and the programs that it became, by the shapes and the weights that they are for.

    *weights* says of each input whether it is a parameter or a buffer of the model.
    """

    graph: Any
    weights: Sequence[bool]
    options: Mapping[str, Any]
    _programs: dict[Key, Callable[..., Sequence[object]]] = field(default_factory=dict)

    def __call__(self, *inputs: object) -> Sequence[object]:
        """The outputs, as the graph gives them."""
        key = tuple(map(_key, inputs, self.weights))
        program = self._programs.get(key)
        if program is None:
            try:
                program = self._compiled(inputs)
            except UserError as error:
                warnings.warn(f"byoc leaves a graph to PyTorch: {error}", stacklevel=2)
                program = self.graph.forward
            self._programs = {known: p for known, p in self._programs.items() if _same_weights(known, key)}
            self._programs[key] = program
        return program(*inputs)

    def _compiled(self, inputs: Sequence[object]) -> Callable[..., Sequence[object]]:
        torch = torch_module("torch.compile(backend='byoc')")
        if torch.is_grad_enabled() and any(getattr(value, "requires_grad", False) for value in inputs):
            raise ImportModelError("it needs gradients, which byoc does not compute; run it under torch.no_grad()")
        places = [k for k, value in enumerate(inputs) if _is_tensor(value) and not self.weights[k]]
        model = exported(torch, self.graph, inputs, places)
        library: Library = compile_model(model, **self.options)
        names = [value.name for value in model.graph.input]

        def run(*given: object) -> Sequence[object]:
            arrays = {name: array_of(given[k]) for name, k in zip(names, places, strict=True)}
            return [tensor_of(torch, np.asarray(found)) for found in library.run(arrays)]

        return run


def exported(torch: Any, graph: Any, inputs: Sequence[object], places: Sequence[int]) -> ModelProto:
    """*graph* as an ONNX model of the inputs at *places*, with the other *inputs* as constants.

    Raises ImportModelError for what is no function of tensors, and for what PyTorch cannot export.
    """

    def forward(module: object, *given: object) -> object:
        found = dict(zip(places, given, strict=True))
        return graph(*[found.get(k, value) for k, value in enumerate(inputs)])

    bound = type("Bound", (torch.nn.Module,), {"forward": forward})
    values = tuple(inputs[k] for k in places)
    if not values:
        raise ImportModelError("it has no input")
    try:
        with torch.no_grad():
            program = torch.export.export(bound().eval(), values)
    except Exception as error:  # the exporter has classes of its own for what it does not take
        raise ImportModelError(f"torch.export does not take it: {in_one_line(error)}") from error
    signature = program.graph_signature
    wanted = importlib.import_module("torch.export.graph_signature").TensorArgument
    if not all(isinstance(spec.arg, wanted) for spec in signature.output_specs):
        raise ImportModelError("it gives something that is no tensor")
    model = onnx_of(program)
    if len(model.graph.input) != len(places) or len(model.graph.output) != len(signature.output_specs):
        raise ImportModelError("PyTorch's exporter leaves inputs or outputs out")
    return model


def is_weight(value: object) -> bool:
    """Whether PyTorch marks *value* as a parameter or a buffer, which stays where it is from call to call."""
    return type(value).__name__ == "Parameter" or bool(getattr(value, "_dynamo_static_input_type", None))


def array_of(tensor: Any) -> np.ndarray:
    """The data of a tensor of the processor, without a copy where it lies in one piece.

    Element types that numpy has from ``ml_dtypes`` (bfloat16, floats of 8 bits) go over as bits.
    """
    data, name = tensor.detach().cpu().contiguous(), str(tensor.dtype).removeprefix("torch.")
    if name not in BITS:
        found: np.ndarray = np.asarray(data.numpy(), order="C")
        return found
    torch = torch_module("torch.compile(backend='byoc')")
    dtype = extension_dtype(name)
    bits: np.ndarray = np.asarray(data.view(torch.int16 if dtype.itemsize == 2 else torch.uint8).numpy(), order="C")
    return bits.view(dtype)


def tensor_of(torch: Any, array: np.ndarray) -> object:
    """*array* as a tensor of the same element type, which shares its memory."""
    name = array.dtype.name
    if name not in BITS:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16 if array.itemsize == 2 else np.uint8)).view(getattr(torch, name))


def _is_tensor(value: object) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape")


def _key(value: Any, is_constant: bool) -> object:
    """What a program depends on: of a weight which it is and how often it was changed, of a tensor its type."""
    if not _is_tensor(value):
        return value
    if is_constant:
        return (id(value), value._version)
    return (tuple(value.shape), str(value.dtype), bool(value.requires_grad))


def _same_weights(one: Key, other: Key) -> bool:
    """Whether programs of two keys are for weights in the same state: those for older ones are of no use."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if isinstance(a, tuple) and len(a) == 2]
    return all(a == b for a, b in pairs)
