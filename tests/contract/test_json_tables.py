"""Backends of a kernel table: what they take without constraints of their own, and kernels that do not end."""

import threading

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import register_backend
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
