"""Operations and bytes of kernels, counted when code is made: exact where the arithmetic can be done by hand."""

import json

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.work import counted_work
from byoc.ir.module import IRModule
from byoc.ir.types import Any, TensorType
from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.opencl.launches import PLAN_VERSION, Launch, plans_from_json
from byoc.runtime.opencl.module import PLAN_MEMBER, OpenCLModule
from byoc.runtime.opencl.numbers import evaluate
from byoc.te import compute, placeholder

pytestmark = [pytest.mark.needs_opencl, pytest.mark.needs_cc]


def var(name, *shape, dtype="float32"):
    return relay.var(name, TensorType(shape, dtype))


def plans(params, body, **options):
    library = byoc.compile(IRModule.from_expr(relay.Function(params, body)), ["opencl", "c"], **options)
    return next(m for m in library.module.imports if m.type_key == "opencl").plans


def launches(params, body, **options):
    return [launch for plan in plans(params, body, **options) for launch in plan.launches]


def total(found, **sizes):
    return tuple(sum(evaluate(getattr(w.work, name), sizes) for w in found) for name in ("operations", "bytes"))


@pytest.mark.parametrize("schedules", ["cpu", "gpu"])
def test_a_product_is_two_operations_a_term_and_reads_and_writes_each_element_once(schedules):
    x, weight = var("x", 64, 128), relay.const(np.ones((96, 128), "float32"))
    options = {"backend_options": {"opencl": {"schedules": schedules}}}
    found = launches([x], relay.nn.relu(relay.nn.dense(x, weight)), **options)
    assert total(found) == (2 * 64 * 96 * 128 + 64 * 96, 4 * (64 * 128 + 96 * 128 + 64 * 96))
    assert {launch.work.operators for launch in found} == {("nn.dense", "nn.relu")}
    assert {launch.work.dtype for launch in found} == {"float32"}


def test_a_convolution_counts_its_taps():
    x, weight = var("x", 1, 4, 10, 10), relay.const(np.ones((8, 4, 3, 3), "float32"))
    options = {"backend_options": {"opencl": {"schedules": "gpu"}}}  # a processor's may take Winograd's method
    found = launches([x], relay.nn.conv2d(x, weight, channels=8, kernel_size=(3, 3)), **options)
    assert total(found) == (2 * 8 * 8 * 8 * 4 * 9, 4 * (4 * 100 + 8 * 4 * 9 + 8 * 64))


@pytest.mark.parametrize("batch", [2, Any("batch")], ids=["fixed", "free"])
def test_a_convolution_by_winograds_method_counts_as_the_convolution_that_it_is(batch):
    x, weight = var("x", batch, 32, 14, 14), relay.const(np.ones((32, 32, 3, 3), "float32"))
    options = {"backend_options": {"opencl": {"schedules": "cpu"}}}
    body = relay.nn.conv2d(x, weight, channels=32, kernel_size=(3, 3), padding=(1, 1))
    (plan,) = plans([x], relay.nn.relu(body), **options)
    assert any("winograd" in spec.name for spec in plan.signature.constants)
    assert total(plan.launches, batch=2)[0] == 2 * 32 * 14 * 14 * (2 * 32 * 9 + 1)


def test_counts_follow_the_sizes_of_a_call():
    x, weight = var("x", Any("batch"), 32), relay.const(np.ones((16, 32), "float32"))
    found = launches([x], relay.nn.dense(x, weight))
    for batch in (1, 7, 1000):
        assert total(found, batch=batch) == (2 * batch * 32 * 16, 4 * (batch * 32 + 16 * 32 + batch * 16))


def test_of_a_table_only_the_rows_that_are_looked_up_are_bytes():
    indices, table = var("i", 3, dtype="int64"), relay.const(np.ones((1000, 64), "float32"))
    found = launches([indices], relay.tanh(relay.take(table, indices, axis=0)))
    operations, nbytes = total(found)
    assert operations == 3 * 64  # places in memory are no operations
    assert nbytes == 4 * 3 * 64 * 2 + 8 * 3


def test_what_only_moves_data_has_no_operations():
    x = var("x", 32, 48)
    assert total(launches([x], relay.transpose(x, (1, 0)))) == (0, 2 * 4 * 32 * 48)


def test_attention_counts_both_products_and_no_scores_among_the_bytes():
    q, k, v = (var(name, 2, 128, 64) for name in "qkv")
    weights = relay.nn.softmax(relay.nn.batch_matmul(q, k), axis=-1)
    body = relay.nn.batch_matmul(weights, relay.transpose(v, (0, 2, 1)))
    options = {"backend_options": {"opencl": {"schedules": "gpu"}}}
    found = launches([q, k, v], body, **options)
    operations, nbytes = total(found)
    products = 2 * (2 * 2 * 128 * 128 * 64)
    assert products <= operations <= 1.1 * products
    if len(found) == 1:
        assert nbytes == 4 * 4 * 2 * 128 * 64
        assert "nn.softmax" in found[0].work.operators


def test_work_that_no_plan_can_record_is_left_out():
    a = placeholder((1 << 30, 1 << 30), "float32", "a")
    huge = compute((1 << 30, 1 << 30), lambda i, j: a[i, j] + 1.0, name="huge")
    assert counted_work((huge,), (a,), (huge,), Simplifier()) is None


def test_a_plan_with_and_without_counts_is_read_and_a_damaged_one_refused():
    x = var("x", 8, 8)
    library = byoc.compile(IRModule.from_expr(relay.Function([x], relay.tanh(x))), ["opencl", "c"])
    module = next(m for m in library.module.imports if m.type_key == "opencl")
    again = OpenCLModule.load(module.save())
    assert [p.launches for p in again.plans] == [p.launches for p in module.plans]
    (data,) = json.loads(json.dumps([p.to_json() for p in module.plans]))
    del data["launches"][0]["work"]
    (plan,) = plans_from_json({"version": PLAN_VERSION, "functions": [data]}, PLAN_MEMBER)
    assert isinstance(plan.launches[0], Launch) and plan.launches[0].work is None
    data["launches"][0]["work"] = {"operations": "M", "bytes": 1, "dtype": "float32"}
    with pytest.raises(ArtifactError, match="expected a number, a size or an operation"):
        plans_from_json({"version": PLAN_VERSION, "functions": [data]}, PLAN_MEMBER)
