"""The fuzzer itself: its models follow from their seeds and cover what is imported, its judge and reducer work."""

from __future__ import annotations

import random
import time

import numpy as np
import onnx.parser
import pytest

import byoc.relay.frontend.onnx  # noqa: F401  # fills the registry
from byoc.relay.frontend.onnx.registry import CONVERTERS, load_families
from fuzz.case import Case, array_from_json, array_to_json
from fuzz.configurations import BACKENDS, Configuration, alone, configuration_of, drawn
from fuzz.execute import BAD, execute
from fuzz.generators import SOURCES, case_of
from fuzz.generators.coverage import NOT_DRAWN, named_operators
from fuzz.generators.nnsmith_source import missing
from fuzz.judge.compare import AGREED, WRONG, Judge, difference
from fuzz.judge.oracle import NotApplicable, wanted
from fuzz.loader import Failure, LoaderProcess
from fuzz.printer import as_test
from fuzz.reducer import reduce

OURS = [name for name in SOURCES if name != "nnsmith"]


def model(text: str, opset: int = 18):
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>\n{text}')


def test_every_operator_that_is_imported_is_drawn_or_has_a_reason():
    load_families()
    words = named_operators()
    assert [key for key in CONVERTERS if key[1] not in words and key not in NOT_DRAWN] == []
    assert [key for key in NOT_DRAWN if key[1] in words or key not in CONVERTERS] == []


@pytest.mark.parametrize("source", OURS)
def test_a_seed_gives_the_same_model_and_numbers_each_time(source):
    first, second = case_of(source, 3), case_of(source, 3)
    assert first.model.SerializeToString(deterministic=True) == second.model.SerializeToString(deterministic=True)
    for one, other in zip(first.feeds, second.feeds, strict=True):
        assert {n: v.tobytes() for n, v in one.items()} == {n: v.tobytes() for n, v in other.items()}


def test_a_case_is_read_back_to_the_bit(tmp_path):
    for seed in range(4):
        case = case_of("wide", seed)
        again = Case.read(case.write(tmp_path / "case.json"))
        assert [n.op_type for n in again.model.graph.node] == [n.op_type for n in case.model.graph.node]
        for one, other in zip(case.feeds, again.feeds, strict=True):
            assert {n: (v.dtype, v.shape, v.tobytes()) for n, v in one.items()} == {
                n: (v.dtype, v.shape, v.tobytes()) for n, v in other.items()
            }


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint64", "bool"])
def test_special_numbers_survive_json(dtype):
    value = np.array([0, 1, np.nan, np.inf] if "float" in dtype else [0, 1, 1, 0]).astype(dtype)
    again = array_from_json(array_to_json(value))
    assert (again.dtype, again.tobytes()) == (value.dtype, value.tobytes())


def test_names_of_configurations_are_read_back():
    rng = random.Random(0)
    for configuration in (c for _ in range(20) for c in drawn(BACKENDS, rng)):
        assert configuration_of(configuration.name) == configuration


def test_the_judge_sees_one_wrong_element_and_forgives_rounding():
    text = "g (float[64,64] x) => (float[] y) { y = MatMul (x, x) }"
    feeds = {"x": np.random.default_rng(0).standard_normal((64, 64)).astype("float32")}
    judge = Judge(model(text), feeds, wanted(model(text), [feeds])[0])
    rounded = (feeds["x"].astype("float64") @ feeds["x"]).astype("float32")
    assert judge.judge(0, rounded).verdict == AGREED
    for change in (1e-3, np.nan, np.inf):
        damaged = rounded.copy()
        damaged[3, 5] += change
        assert judge.judge(0, damaged).verdict == WRONG
    assert judge.judge(0, rounded[:32]).verdict == WRONG
    assert judge.judge(0, rounded.astype("float64")).verdict == WRONG


def test_an_infinity_where_a_number_stands_is_a_difference():
    want = np.array([1, np.inf, np.nan], "float32")
    assert difference(want.copy(), want, 1e-6) is None
    for place, value in ((0, np.inf), (1, -np.inf), (1, 1e38), (2, 0.0)):
        got = want.copy()
        got[place] = value
        assert difference(got, want, 1e-6) is not None


def test_the_reducer_leaves_what_makes_a_case_fail():
    text = """g (float[4,6] x, float[6] b) => (float[] r, float[] s) {
        a = Add (x, b)
        t = Tanh (a)
        e = Exp (t)
        r = Neg (e)
        s = Abs (x)
    }"""
    numbers = np.random.default_rng(0)
    feeds = {"x": numbers.random((4, 6)).astype("float32"), "b": numbers.random(6).astype("float32")}
    case = Case("exp", model(text), [feeds])
    small = reduce(case, lambda c: any(n.op_type == "Exp" for n in c.model.graph.node), time.monotonic() + 60)
    assert [n.op_type for n in small.model.graph.node] == ["Exp"]
    assert [v.shape for v in small.feeds[0].values()] == [(1, 1)]
    printed = as_test(Case("exp", small.model, small.feeds, wanted(small.model, small.feeds)))
    assert "Exp" in printed and "def test_exp" in printed
    compile(printed, "printed", "exec")


def test_a_process_that_dies_or_raises_is_reported_and_replaced(tmp_path):
    loader = LoaderProcess()
    try:
        with pytest.raises(Failure) as shown:
            loader.run(tmp_path / "missing.byoc", [{}], alone("c"))
        assert shown.value.verdict == "error" and "missing.byoc" in str(shown.value)
        assert loader._process is not None
        loader._process.kill()
        loader._process.join()
        with pytest.raises(Failure, match="missing.byoc"):
            loader.run(tmp_path / "missing.byoc", [{}], alone("c"))
    finally:
        loader.close()


@pytest.mark.needs_cc
@pytest.mark.parametrize("source", OURS)
def test_a_few_models_of_each_source_are_right(source, tmp_path):
    for seed in range(3):
        check(source, seed, [alone("json")], tmp_path)
    check(source, 3, [alone("c")], tmp_path)


@pytest.mark.slow
@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("seed", range(20_000, 20_020))
def test_more_models_of_each_source_are_right(source, seed, tmp_path):
    if source == "nnsmith" and missing():
        pytest.skip(str(missing()))
    configurations = [c for c in drawn(BACKENDS, random.Random(seed)) if not c.saved]
    check(source, seed, configurations, tmp_path)


def check(source: str, seed: int, configurations: list[Configuration], scratch) -> None:
    try:
        case = case_of(source, seed)
    except NotApplicable as error:
        pytest.skip(f"{source}-{seed}: {error}")
    judges = [Judge(case.model, feeds, list(want)) for feeds, want in zip(case.feeds, case.wanted, strict=True)]
    for configuration in configurations:
        outcome = execute(case, configuration, judges, LoaderProcess(), scratch)
        assert outcome.verdict not in BAD, f"{case.name} {configuration.name}: {outcome}"
