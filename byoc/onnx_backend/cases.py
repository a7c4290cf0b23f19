"""ONNX's own test suite as data: each case a model with inputs and the outputs that the standard wants.

The cases are those that ``onnx.backend.test.runner.Runner`` runs, but for ``real``, whose models it fetches. Source:
``onnx.backend.test.loader``.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TypeProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
SEVERAL = "several operators"
OTHER_NUMBERS = "other numbers"
EXPANDED = "_expanded"  # in the name of a case whose operator is written as the function that defines it


@dataclass(frozen=True)
class SuiteCase:
    """A test of the suite: *data* are pairs of inputs and wanted outputs, of arrays, lists of them, or None."""

    name: str
    operator: str
    model: ModelProto
    data: Sequence[tuple[Sequence[object], Sequence[object]]]
    rtol: float
    atol: float


def suite(kinds: Iterable[str] = KINDS) -> Iterator[SuiteCase]:
    """The cases of these *kinds* by name. The data of 1,900 cases is computed when they are asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests  # which computes

        tests = [test for kind in kinds for test in load_model_tests(kind=kind)]
    yield from _cases(tests)


def cases_named(names: Iterable[str], modules: Iterable[str]) -> Iterator[SuiteCase]:
    """The cases of these *names*, which *modules* of ``onnx.backend.test.case.node`` make; no others are computed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import node

        for module in modules:
            importlib.import_module(f"{node.__name__}.{module}")
    wanted = set(names)
    needed = wanted | {name.partition(EXPANDED)[0] for name in wanted}  # which say what an expanded one is about
    tests = [test for test in node._NodeTestCases if test.name in needed]
    yield from (case for case in _cases(tests) if case.name in wanted)


def _cases(tests: Sequence[TestCase]) -> Iterator[SuiteCase]:
    models = {test.name: test.model for test in tests if test.model is not None}
    for test in sorted(tests, key=lambda test: test.name):
        data: list[tuple[list[object], list[object]]]
        if test.model is not None:
            model, given = test.model, test.data_sets or ()
            data = [([_value(v) for v in inputs], [_value(v) for v in wanted]) for inputs, wanted in given]
        else:
            folder = Path(str(test.model_dir))
            model = onnx.load(folder / "model.onnx")
            data = list(_stored(folder, model))
        defined = models.get(test.name.partition(EXPANDED)[0]) if EXPANDED in test.name else None
        yield SuiteCase(test.name, operator_of(defined or model), model, data, test.rtol, test.atol)


def operator_of(model: ModelProto) -> str:
    """What a case is about: its one operator that is no Constant, with its domain where that is not ONNX's main one."""
    found = {(node.domain, node.op_type) for node in model.graph.node if node.op_type != "Constant"}
    if len(found) != 1:
        return SEVERAL
    domain, name = found.pop()
    return f"{name} ({domain})" if domain not in ("", "ai.onnx") else name


def _value(value: object) -> object:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    return [_value(v) for v in value] if isinstance(value, (list, tuple)) else value


def _stored(folder: Path, model: ModelProto) -> Iterator[tuple[list[object], list[object]]]:
    """The data sets beside a stored model."""
    weights = {t.name for t in model.graph.initializer}
    inputs = [v.type for v in model.graph.input if v.name not in weights]
    for data in sorted(folder.glob("test_data_set*")):
        outputs = [v.type for v in model.graph.output]
        yield (
            [_read(data / f"input_{k}.pb", ty) for k, ty in enumerate(inputs)],
            [_read(data / f"output_{k}.pb", ty) for k, ty in enumerate(outputs)],
        )


def _read(path: Path, ty: TypeProto) -> object:
    kind = ty.WhichOneof("value")
    message: onnx.TensorProto | onnx.SequenceProto | onnx.OptionalProto = onnx.TensorProto()
    if kind in ("sequence_type", "optional_type"):
        message = onnx.SequenceProto() if kind == "sequence_type" else onnx.OptionalProto()
    message.ParseFromString(path.read_bytes())
    return _value(message)


def difference(found: object, wanted: object, rtol: float, atol: float) -> str:
    """ "" where *found* is *wanted* as the test runner of ONNX compares, else what differs.

    Types and shapes are exact, numbers within *rtol* and *atol*, those of bfloat16 within two of its roundings.
    """
    if wanted is None or found is None:
        return "" if found is wanted else f"{_kind(found)} instead of {_kind(wanted)}"
    if isinstance(wanted, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(wanted):
            return f"{_kind(found)} instead of {_kind(wanted)}"
        return next((d for f, w in zip(found, wanted, strict=True) if (d := difference(f, w, rtol, atol))), "")
    first, second = np.asarray(found), np.asarray(wanted)
    is_text = [a.dtype.kind in "OSUT" for a in (first, second)]
    if first.shape != second.shape or (first.dtype != second.dtype and not all(is_text)):
        return f"{first.dtype}{first.shape} instead of {second.dtype}{second.shape}"
    if all(is_text):
        return "" if [str(v) for v in first.flat] == [str(v) for v in second.flat] else "other text"
    if second.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)
    if second.dtype.kind not in "fcbiu":  # of 16 bits and fewer that numpy itself does not have
        first, second = first.astype("float64"), second.astype("float64")
    return "" if np.allclose(first, second, rtol=rtol, atol=atol, equal_nan=True) else OTHER_NUMBERS


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    return f"a sequence of {len(value)}" if isinstance(value, (list, tuple)) else type(value).__name__
