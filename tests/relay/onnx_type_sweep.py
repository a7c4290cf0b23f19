"""Every operator that the importer has, by every element type that its schema allows: cases from ONNX's own node tests.

A node test brings valid shapes and attributes. For each type parameter of its operator's schema, and each type that the
parameter allows and the compiler has, the test is made again with inputs of that type, filled with ordinary numbers and
with edges (NaN, infinities, -0.0, the extremes of integers, numbers beyond 2^24 and 2^53). What is right is said by
ONNX Runtime where it has the operator for the type, else by ONNX's reference.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from byoc.relay.frontend.onnx.dtypes import DTYPE_OF, schema_dtype
from byoc.relay.frontend.onnx.registry import find_converter

SKIPPED = frozenset(  # random numbers, and what has no numbers
    "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike Dropout If Loop Scan "
    "StringNormalizer StringConcat StringSplit RegexFullMatch Optional OptionalGetElement OptionalHasElement".split()
)
ELEM_OF = {name: number for number, name in DTYPE_OF.items()}
EDGES = ("plain", "edges")


@dataclass(frozen=True)
class Case:
    """A node test made again: *parameter* of the schema is *dtype*, its inputs are filled with *values*."""

    test: str
    op: str
    parameter: str
    dtype: str
    values: str

    def __str__(self) -> str:
        return f"{self.test}-{self.parameter}-{self.dtype}-{self.values}"


@functools.cache
def _node_tests() -> dict[str, tuple[onnx.ModelProto, list[np.ndarray]]]:
    """The model and the inputs of every node test whose inputs are all tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests  # computes the data of 1,900 tests

        loaded = load_model_tests(kind="node")
    found = {}
    for test in loaded:
        given = test.data_sets[0][0] if test.data_sets else [None]
        if all(isinstance(v, (onnx.TensorProto, np.ndarray, np.generic)) for v in given):
            arrays = [numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else np.asarray(v) for v in given]
            found[test.name] = (test.model, arrays)
    return found


def _schema(model: onnx.ModelProto) -> onnx.defs.OpSchema | None:
    node = model.graph.node[0]
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    try:
        return onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None


@functools.cache
def tests() -> tuple[str, ...]:
    """The node tests of one node of the default domain that the importer has a converter for."""
    found = []
    for name, (model, _) in sorted(_node_tests().items()):
        opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
        if len(model.graph.node) != 1 or not opset or model.graph.node[0].op_type in SKIPPED:
            continue
        if find_converter("", model.graph.node[0].op_type, opset) and _schema(model) is not None:
            found.append(name)
    return tuple(found)


def cases() -> Iterator[Case]:
    """Every case, in the order of the tests."""
    for test in tests():
        model = _node_tests()[test][0]
        schema = _schema(model)
        for constraint in schema.type_constraints:
            allowed = map(schema_dtype, constraint.allowed_type_strs)
            for dtype in [n for n in allowed if n in ELEM_OF and n != "string"]:
                for values in EDGES:
                    yield Case(test, model.graph.node[0].op_type, constraint.type_param_str, dtype, values)


def _parameters(schema: onnx.defs.OpSchema, count: int, formals: list) -> list[str]:
    """The type parameter of each of *count* actual values."""
    return [formals[min(k, len(formals) - 1)].type_str if formals else "" for k in range(count)]


def numpy_type(dtype: str) -> np.dtype:
    """numpy's type of a name."""
    return np.dtype(getattr(ml_dtypes, dtype, None) or dtype)


def filled(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, values: str) -> np.ndarray:
    """Numbers of *dtype*: *values* says whether edges are among them."""
    kind = numpy_type(dtype)
    count = int(np.prod(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        limits = ml_dtypes.iinfo(kind)
        plain = rng.integers(max(limits.min, -9), min(limits.max, 9) + 1, count).astype(kind)
        edge = [limits.min, limits.max, 0, 1, limits.max - 1, min(limits.max, 2**24 + 1), min(limits.max, 2**53 + 1)]
    else:
        plain = (rng.normal(size=count) * 2).astype(kind)
        edge = [np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, 1.5, -2.5, 1e30]
    if values == "edges" and count:
        places = rng.permutation(count)[: max(count // 3, 1)]
        with np.errstate(all="ignore"):
            plain[places] = np.resize(np.array(edge, object if "int" in dtype else None), len(places)).astype(kind)
    return plain.reshape(shape)


def build(case: Case, seed: int = 0) -> tuple[onnx.ModelProto, list[np.ndarray]] | None:
    """The model and the inputs of *case*; None where no input of the test is of its parameter."""
    model = onnx.ModelProto()
    source, given = _node_tests()[case.test]
    model.CopyFrom(source)
    schema, node, arrays = _schema(model), model.graph.node[0], list(given)
    kinds = dict(zip(node.input, _parameters(schema, len(node.input), list(schema.inputs)), strict=True))
    results = dict(zip(node.output, _parameters(schema, len(node.output), list(schema.outputs)), strict=True))
    rng = np.random.default_rng(seed)
    changed = False
    for k, value in enumerate(model.graph.input):
        if kinds.get(value.name) != case.parameter or not value.type.HasField("tensor_type"):
            continue
        original = arrays[k]
        if original.dtype.kind not in "fiubV" or original.dtype == object:
            return None
        changed = True
        steers = case.parameter != "T" and set("int32 int64".split()) >= {original.dtype.name}
        if steers:  # indices, lengths, axes: their numbers are part of the test
            arrays[k] = original.astype(numpy_type(case.dtype))
        else:
            arrays[k] = filled(rng, original.shape, case.dtype, case.values)
        value.type.tensor_type.elem_type = ELEM_OF[case.dtype]
    for value in model.graph.output:
        if value.type.HasField("sequence_type"):  # its type follows from the inputs
            value.ClearField("type")
        elif results.get(value.name) == case.parameter:
            value.type.tensor_type.elem_type = ELEM_OF[case.dtype]
    if not changed:
        return None
    for k, value in enumerate(model.graph.input):  # short lists of numbers as initialisers, as exporters write them
        if kinds.get(value.name) != case.parameter and k and arrays[k].ndim <= 1 and arrays[k].size <= 16:
            model.graph.initializer.append(numpy_helper.from_array(arrays[k], value.name))
    return model, arrays


def expected(model: onnx.ModelProto, arrays: list[np.ndarray]) -> dict[str, list[np.ndarray]]:
    """What is right, by who says it: ONNX Runtime and the reference, as far as they have the operator for the types.

    An output that is a sequence stands as :func:`flat` says. The reference gives some results in another type than the
    operator's schema says, and is not asked about these.
    """
    declared = {k: DTYPE_OF.get(o.type.tensor_type.elem_type) for k, o in enumerate(model.graph.output)}
    feeds = dict(zip([v.name for v in model.graph.input], arrays, strict=True))
    found = {}
    for name, run in (("onnxruntime", _by_onnxruntime), ("reference", _by_reference)):
        try:
            outputs = run(model, feeds)
        except Exception:  # classes of their own, and numpy's, for types that they do not take
            continue
        if all(np.asarray(v).dtype.name == declared[k] for k, v in enumerate(outputs) if declared[k]):
            found[name] = flat(outputs)
    return found


def flat(outputs: Iterable[object]) -> list[np.ndarray]:
    """The arrays of *outputs*: for one that is a sequence its length, and then its elements."""
    found: list[np.ndarray] = []
    for value in outputs:
        if isinstance(value, (list, tuple)):
            found += [np.asarray(len(value)), *flat(value)]
        else:
            found.append(np.asarray(value))
    return found


def _by_onnxruntime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    older = onnx.ModelProto()
    older.CopyFrom(model)
    older.ir_version = min(model.ir_version, 10)
    session = onnxruntime.InferenceSession(older.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def _by_reference(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None, feeds)


ROUNDING = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 2e-4, "float64": 1e-5}


def differences(got: list[np.ndarray], want: list[np.ndarray]) -> list[str]:
    """What differs, a text for each output that does; nothing where none does."""
    if len(got) != len(want):
        return [f"{len(got)} arrays where {len(want)} are right"]
    return [text for g, w in zip(got, want, strict=True) if (text := difference(g, w))]


def difference(got: np.ndarray, want: np.ndarray) -> str:
    """What differs, or the empty text."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} where {want.dtype}{list(want.shape)} is right"
    if got.dtype.kind in "iub" or "int" in got.dtype.name:
        wrong = got != want
    else:
        tolerance = ROUNDING.get(got.dtype.name, 0.0)  # in 8 bits and less the numbers are the same
        a, b = got.astype("float64"), want.astype("float64")
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= tolerance * np.maximum(np.abs(b), 1)
        wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (near & np.isfinite(b)))
    if not wrong.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0]) if got.ndim else ()
    return f"{int(wrong.sum())} of {wrong.size} differ, first at {place}: {got[place]} where {want[place]} is right"
