"""Two ONNX models on the same random inputs by ONNX Runtime: how far their outputs are apart.

Free sizes are 2, else 1 or 16 where the model does not run with them. Where ONNX Runtime is not installed, or does
not run the first model, nothing is compared, and the result says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, helper

from byoc.driver.models.as_specified import as_specified
from byoc.errors import InternalError, in_one_line
from byoc.relay.frontend.onnx.load import LoadedModel

Value = Any  # of an input or an output: an array, a list of these for a sequence, None for no element
FREE_SIZES = (2, 1, 16)
TOLERANCE = 1e-3  # of the largest element of an output
LARGEST_MESSAGE = 2**31 - 2**20  # of protobuf
QUIET = 4  # ONNX Runtime's level of its log: fatal


@dataclass(frozen=True)
class Agreement:
    """The largest *difference* of an element, in parts of the largest element of its output.

    *problem* is why nothing was compared; *note* is what ONNX Runtime takes otherwise than ONNX says in the source.
    """

    difference: float = 0.0
    problem: str = ""
    note: str = ""

    def to_json(self) -> dict[str, object]:
        """The difference, or why there is none."""
        found: dict[str, object] = (
            {"problem": self.problem} if self.problem else {"largest_difference": self.difference}
        )
        return {**found, "note": self.note} if self.note else found

    def __str__(self) -> str:
        if self.problem:
            return f"not run by ONNX Runtime: {self.problem}"
        near = f"within {self.difference:.1e} of the largest output" if self.difference else "bit by bit"
        return f"ONNX Runtime computes the same, {near}, on random inputs" + (f"; {self.note}" if self.note else "")


def compared(source: LoadedModel, made: Path) -> Agreement:
    """How far *made* is from *source*. Raises InternalError where ONNX Runtime runs *source* and not *made*."""
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError:
        return Agreement(problem="onnxruntime is not installed")
    whole: str | bytes = source.name if source.folder is not None else source.proto.SerializeToString()
    weights = {t.name for t in source.proto.graph.initializer}
    inputs = {v.name: v.type for v in source.proto.graph.input if v.name not in weights}
    try:
        first = _session(runtime, whole)
    except Exception as error:  # ONNX Runtime's own classes, which are not there without it
        return Agreement(problem=in_one_line(error))
    try:
        second = _session(runtime, str(made))
    except Exception as error:
        raise InternalError(f"ONNX Runtime does not take what was written: {in_one_line(error)}") from error
    tensors = {name for name, ty in inputs.items() if ty.HasField("tensor_type")}
    shapes = {i.name: i.shape for i in second.get_inputs() if i.name in tensors}
    candidates = [random_inputs(inputs, shapes, size) for size in FREE_SIZES]
    found = _compared(first, second, candidates)
    if found.difference <= TOLERANCE:
        return found
    # ONNX Runtime's own simplifications compute in fewer bits than the model says where it quantizes
    second = _session(runtime, str(made), False)
    found = _compared(_session(runtime, whole, False), second, candidates)
    if found.difference <= TOLERANCE:
        return found
    proto, note = as_specified(source)
    if proto is None or proto.ByteSize() > LARGEST_MESSAGE:
        return found
    stated = _compared(_session(runtime, proto.SerializeToString(), False), second, candidates)
    return replace(stated, note="; ".join(filter(None, [note, stated.note])))


def _compared(first: Any, second: Any, candidates: Sequence[dict[str, Value]]) -> Agreement:
    """The agreement of two sessions on the first inputs that *first* runs."""
    problem = ""
    for given in candidates:
        try:
            wanted = first.run(None, given)
        except Exception as error:
            problem = problem or in_one_line(error)
            continue
        try:
            found = second.run(None, given)
        except Exception as error:
            raise InternalError(f"ONNX Runtime does not run what was written: {in_one_line(error)}") from error
        apart = difference(found, wanted)
        return Agreement(apart) if apart <= TOLERANCE else _but_for_chance(found, wanted, first.run(None, given))
    return Agreement(problem=problem)


def _but_for_chance(found: Sequence[Value], wanted: Sequence[Value], again: Sequence[Value]) -> Agreement:
    """The agreement of outputs that two runs of the source give alike; of the others the shapes are compared."""
    by_chance = [difference([one], [other]) > 0 for one, other in zip(again, wanted, strict=True)]
    if not any(by_chance):
        return Agreement(difference(found, wanted))
    triples = list(zip(found, wanted, by_chance, strict=True))
    if any(chance and _form(one) != _form(other) for one, other, chance in triples):
        return Agreement(float("inf"))
    kept = [(one, other) for one, other, chance in triples if not chance]
    count = f"{sum(by_chance)} of {len(wanted)} outputs are other numbers in each run of the model"
    note = f"{count}, so that only their shapes and types were compared"
    return Agreement(difference([one for one, _ in kept], [other for _, other in kept]), note=note)


def _form(value: Value) -> object:
    if isinstance(value, list):
        return [_form(element) for element in value]
    return None if value is None else (np.shape(value), np.asarray(value).dtype)


def random_inputs(
    types: Mapping[str, TypeProto], shapes: Mapping[str, Sequence[int | str | None]], size: int
) -> dict[str, Value]:
    """A value for each input: numbers from a normal distribution, integers 0 and 1, free dimensions of *size*.

    Strings are these numbers as texts; a sequence has three elements, an optional its element.
    """
    rng = np.random.default_rng(0)
    return {name: _random(ty, shapes.get(name), size, rng) for name, ty in types.items()}


def _random(ty: TypeProto, shape: Sequence[int | str | None] | None, size: int, rng: np.random.Generator) -> Value:
    if ty.HasField("sequence_type"):
        return [_random(ty.sequence_type.elem_type, None, size, rng) for _ in range(3)]
    if ty.HasField("optional_type"):
        return _random(ty.optional_type.elem_type, None, size, rng)
    tensor = ty.tensor_type
    if shape is None:
        shape = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    dims = [d if isinstance(d, int) and d >= 0 else size for d in shape]
    if tensor.elem_type == TensorProto.STRING:
        return rng.integers(0, 4, dims).astype("str").astype(object)
    is_float = tensor.elem_type in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
    values = rng.standard_normal(dims) if is_float else rng.integers(0, 2, dims)
    return np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))


def difference(found: Iterable[Value], wanted: Iterable[Value]) -> float:
    """The largest difference of an element, in parts of the largest element of its output (of 1 at least).

    Infinite for another shape or dtype, where one of two elements is not finite, and for texts that differ.
    """
    return max((_apart(one, other) for one, other in zip(found, wanted, strict=True)), default=0.0)


def _apart(one: Value, other: Value) -> float:
    if isinstance(other, list) and other and isinstance(other[0], dict) and not isinstance(one, list):
        other = np.array([list(row.values()) for row in other], one.dtype)  # of ZipMap, which is its tensor for byoc
    if one is None or other is None:  # an optional without an element
        return 0.0 if one is other else float("inf")
    if isinstance(one, list) or isinstance(other, list):
        same = isinstance(one, list) and isinstance(other, list) and len(one) == len(other)
        return difference(one, other) if same else float("inf")
    one, other = np.asarray(one), np.asarray(other)
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return float("inf")
    if one.dtype.kind in "OSU":
        return 0.0 if np.array_equal(one, other) else float("inf")
    first, second = (_with_infinities(array) for array in (one, other))
    usual = np.isfinite(first) & np.isfinite(second)
    if not np.array_equal(first[~usual], second[~usual], equal_nan=True):
        return float("inf")
    scale = max(1.0, float(np.abs(second[usual]).max(initial=0)))
    return float(np.abs(first[usual] - second[usual]).max(initial=0)) / scale


def _with_infinities(array: np.ndarray) -> np.ndarray:
    """*array* as float64; the last numbers of a float's range, by which ONNX Runtime masks scores, are infinite."""
    wide = array.astype("float64")
    if array.dtype.kind == "f":
        last = float(np.finfo(array.dtype).max)
        wide[np.abs(wide) >= last] *= np.inf
    return wide


def _session(runtime: ModuleType, model: str | bytes, simplified: bool = True) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = QUIET
    if not simplified:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
