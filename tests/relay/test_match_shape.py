"""``match_shape``: the type that it gives, what it refuses when typed and when run, and its text."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.errors import TypeInferenceError
from byoc.ir.types import Any, TensorType
from byoc.relay.analysis import infer_expr
from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.registry import get_kernel


def matched(data_shape, shape):
    return infer_expr(relay.match_shape(relay.var("x", shape=data_shape), shape))


def test_unnamed_sizes_get_names_and_numbers() -> None:
    assert matched([Any(), Any(), Any(), 3], [Any("N"), 4, Any(), 3]) == TensorType([Any("N"), 4, Any(), 3])


def test_what_the_type_says_already_stays() -> None:
    assert matched([5, Any("M")], [Any("N"), Any()]) == TensorType([5, Any("M")])


@pytest.mark.parametrize("shape", [[2], [2, 3, 1], [3, 3]])
def test_a_shape_that_cannot_be_is_refused_when_typed(shape: list[int]) -> None:
    with pytest.raises(TypeInferenceError, match="match_shape"):
        matched([2, 3], shape)


@pytest.mark.parametrize("shape", [("?N", "?N"), ("3", "?"), ("?",)])
def test_a_shape_that_is_not_so_is_refused_when_run(shape: tuple[str, ...]) -> None:
    with pytest.raises(KernelError, match=r"match_shape: expected \(.*\), got \(2, 3\)"):
        get_kernel("match_shape")(np.zeros((2, 3)), shape=shape)


def test_a_dimension_that_is_no_size_is_refused() -> None:
    call = relay.match_shape(relay.var("x", shape=[2]), [2])
    wrong = relay.Call(call.op, call.args, type(call.attrs)(("-1",)))
    with pytest.raises(TypeInferenceError, match=r"a number, \?name or \?, got '-1'"):
        infer_expr(wrong)


@pytest.mark.parametrize("name", ["batch", "2*batch", "with space", "?", 'quo"te'])
def test_its_text_is_read_back(name: str) -> None:
    x = relay.var("x", shape=[Any(), 3])
    mod = relay.IRModule({"main": relay.Function([x], relay.match_shape(x, [Any(name), 3]))})
    again = relay.parse(mod.astext())
    relay.assert_structural_equal(again, relay.transform.InferType()(mod))
    assert infer_expr(again["main"].body) == TensorType([Any(name), 3])
