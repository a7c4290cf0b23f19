"""Backends of a kernel table: what they take without constraints of their own, and kernels that do not end."""

import threading

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import PatternEntry, register_backend
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.runtime.errors import RunTimeoutError
from byoc.runtime.json import KernelTable

TABLE = KernelTable("table_of_two")
GO_ON = threading.Event()


@TABLE.kernel("exp")
def exp(x):
    return np.exp(x)


@TABLE.kernel("tanh")
def endless(x):
    GO_ON.wait(60)
    return np.tanh(x)


class TableOfTwo(JsonBackend):
    """A table of two kernels."""

    name = table = "table_of_two"


@pytest.fixture
def backend(forget):
    register_backend(TableOfTwo)
    forget(TableOfTwo.name)
    return TableOfTwo.name


def model(body):
    x = relay.var("x", shape=(2,))
    return byoc.IRModule.from_expr(relay.Function([x], body(x)))


def test_without_constraints_it_takes_what_its_table_has(backend):
    plan = byoc.plan(model(lambda x: relay.sqrt(relay.exp(x))), [backend, "c"])
    assert [d.target for d in plan.decisions] == [backend, None]
    assert "an operator of the table table_of_two, got sqrt" in str(plan)


def test_a_kernel_that_does_not_end_is_left_when_the_time_of_its_region_is_over(backend):
    library = byoc.compile(model(relay.tanh), [backend, "c"], region_timeout=0.2)
    try:
        with pytest.raises(RunTimeoutError):
            library(np.zeros(2, "float32"))
        assert not GO_ON.is_set()
    finally:
        GO_ON.set()


UNIONS = KernelTable("table_of_unions")
GIVEN = []


@UNIONS.kernel("nn.conv1d")
def conv1d(data, weight, *, strides: int | tuple[int, ...] = 1, padding: tuple[int, ...] | int = 0):
    GIVEN.append((strides, padding))
    return np.zeros((1, 1, 3), "float32")


@UNIONS.kernel("nn.softmax")
def softmax(data, *, axis: tuple[int, ...] | int | float = -1):
    GIVEN.append(axis)
    return data


@UNIONS.kernel("table_of_unions.sum_of_abs")
def sum_of_abs(data, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False):
    GIVEN.append(axis)
    return np.sum(np.abs(data), axis=axis)


@UNIONS.kernel("strided_slice")
def sliced(data, **attributes):
    GIVEN.append(attributes)
    return data[1:]


class TableOfUnions(JsonBackend):
    """Kernels that take a number or a sequence."""

    name = table = "table_of_unions"

    def patterns(self):
        return [PatternEntry("table_of_unions.sum_of_abs", is_op("sum")(is_op("abs")(wildcard())))]


@pytest.mark.parametrize(
    "shape, body, given",
    [
        (
            (1, 1, 6),
            lambda x: relay.nn.conv1d(x, relay.const(np.ones((1, 1, 2), "float32")), strides=2),
            ((2,), (0, 0)),
        ),
        ((2, 2), relay.nn.softmax, -1),
        ((2, 3), lambda x: relay.sum(relay.abs(x), axis=1), (1,)),
        ((2, 3), lambda x: relay.sum(relay.abs(x), axis=(1,)), (1,)),
        ((2, 3), lambda x: relay.sum(relay.abs(x), axis=(0, 1)), (0, 1)),
        ((2, 3), lambda x: relay.sum(relay.abs(x)), None),
    ],
)
def test_a_kernel_that_takes_numbers_and_sequences_is_given_what_the_call_has(forget, tmp_path, shape, body, given):
    register_backend(TableOfUnions)
    forget(TableOfUnions.name)
    x = relay.var("x", shape=shape)
    mod = byoc.IRModule.from_expr(relay.Function([x], body(x)))
    library = byoc.compile(mod, ["table_of_unions"])
    for each in (library, byoc.load(library.save(tmp_path / "model.byoc"))):
        GIVEN.clear()
        each(np.ones(shape, "float32"))
        assert [given] == GIVEN


def test_a_kernel_of_all_attributes_is_given_sequences_of_one(forget):
    register_backend(TableOfUnions)
    forget(TableOfUnions.name)
    GIVEN.clear()
    byoc.compile(model(lambda x: relay.strided_slice(x, [1], [2], axes=[0])), ["table_of_unions"])(
        np.ones(2, "float32")
    )
    assert (GIVEN[0]["begin"], GIVEN[0]["end"], GIVEN[0]["axes"]) == ((1,), (2,), (0,))
    assert "sequences_of_one" not in GIVEN[0]
