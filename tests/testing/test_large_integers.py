"""Integers beyond what floats hold: who computes them in floats is found, with a sentence, and nobody else is."""

import operator

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.contract import get_backend
from byoc.ir.op import get_op
from byoc.testing import certify
from byoc.testing.cases.large_integers import large_integer_cases
from byoc.testing.cases.operators import BackendAnswers
from byoc.testing.checks import NUMBERS, Examiner
from byoc.testing.core.case import LARGE_INTEGERS
from byoc.testing.core.reference import outputs_of


def cases_of(name, backend="json"):
    return list(large_integer_cases(BackendAnswers(get_backend(backend)), get_op(name), 0))


@pytest.mark.parametrize(
    "only", [["add", "split"], pytest.param(["add", "sum", "nn.relu", "split"], marks=pytest.mark.slow)], ids=len
)
def test_a_backend_that_computes_integers_in_float32_is_not_certified(backend_with, only):
    found = certify(backend_with("float"), only=only, saved=False)
    wrong = [case for case in found.failures if case.kind == LARGE_INTEGERS]
    assert {case.operator for case in wrong} == set(only)
    assert wrong == list(found.failures)  # nothing else sees it
    texts = [f.text for case in wrong for f in case.findings]
    assert all("beyond 2**24, from where on float32 leaves some out" in text for text in texts), texts
    assert any("1073741824, expected 1073741821" in text for text in texts), texts


def test_the_command_says_what_large_integers_show(backend_with, capsys):
    name = backend_with("float")
    assert (
        main(["certify", name, "--import", "planted", "--only", "nn.relu", "--no-saved", *["--skip", "fallback"]]) == 2
    )
    assert "beyond 2**24" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["divide", "floor_mod", "bitwise_and", "less", "multiply", "nn.dense", "argmax"])
def test_each_case_is_one_that_a_float_gives_otherwise(name):
    found = {str(case.feeds[0][0].dtype): case for case in cases_of(name)}
    assert set(found) == {"int32", "int64"}
    for dtype, number in (("int32", "float32"), ("int64", "float64")):
        case = found[dtype]
        want = outputs_of(case.function, case.feeds[0], False)[0]
        rounded = [a.astype(number).astype(a.dtype) if a.dtype == dtype else a for a in case.feeds[0]]
        through = outputs_of(case.function, rounded, False)[0]
        assert through.astype(number).astype(want.dtype).tolist() != want.tolist()


def test_products_and_shifts_are_what_they_are_without_a_bound():
    for name, exact in (("multiply", operator.mul), ("left_shift", operator.lshift), ("add", operator.add)):
        for case in cases_of(name):
            got = outputs_of(case.function, case.feeds[0], False)[0]
            np.testing.assert_array_equal(got, exact(*(a.astype(object) for a in case.feeds[0])))


@pytest.mark.parametrize("name", ["nn.layer_norm", "tan", "nn.log_softmax", "image.resize3d", "nn.softmax", "exp"])
def test_what_rounds_by_its_nature_makes_no_case(name):
    assert cases_of(name) == []


HOST = ("add", "divide", "sum", "mean", "nn.dense", "nn.conv2d", "less", "argmax", "clip", "floor_mod", "right_shift")


def test_the_hosts_generated_code_is_right():
    backend = get_backend("c")
    asked, examiner = BackendAnswers(backend), Examiner(backend)
    cases = [case for name in HOST for case in large_integer_cases(asked, get_op(name), 0)]
    assert {case.operator for case in cases} == set(HOST)
    assert [(c.name, f) for c in cases for f in examiner.examine(c, (NUMBERS,))] == []


def test_sums_of_int64_are_not_given_to_onnx_runtime_which_adds_them_in_float64():
    x = relay.var("x", shape=(2, 3), dtype="int64")
    values = np.array([[2**60 + 1] * 3, [2**60 + 1, 1, 1]])
    for reduced, want in ((relay.sum, values.sum(1)), (relay.mean, values.sum(1) // 3)):
        library = byoc.compile(byoc.IRModule.from_expr(relay.Function([x], reduced(x, axis=1))), ["onnxruntime", "c"])
        np.testing.assert_array_equal(library(values), want)
        assert "which ONNX Runtime adds in float64, got int64" in str(library.plan)
