"""The analytic model on numbers that can be worked out by hand."""

import math
from dataclasses import replace

import pytest

from byoc import relay
from byoc.contract import BACKENDS, Backend
from byoc.errors import PartitionError, RegistryError
from byoc.ir.module import IRModule
from byoc.partition.costs import AnalyticModel, Memory, Profile, register_profile
from byoc.partition.costs.analytic import product_seconds
from byoc.partition.costs.kernels import kernels_of
from byoc.partition.costs.model import unit_calls
from byoc.partition.costs.profile import PROFILES
from byoc.partition.costs.work import ProductWork, WorkKind, work_of
from byoc.relay.transform import InferType

# every rate a power of ten of its own, so that each part of a sum can be seen
PLAIN = Profile(
    device="a device of round numbers",
    multiply_adds={"float32": 1e6, "bfloat16": 4e6, "*": 1e3},
    depthwise=1e5,
    window=1e4,
    pointwise=1e3,
    costly=1e2,
    reduction=1e3,
    rows=1e3,
    move=1e3,
    library=1e1,
    memories=(Memory(1000, 1e4), Memory(math.inf, 1e3)),
    kernel=0.5,
    launch=2.0,
    latency=1.0,
    upload=10.0,
    download=5.0,
    lanes=1,
    overhead=0.0,
    window_overhead=0.0,
)


def typed(params, body):
    return InferType()(IRModule({"main": relay.Function(params, body)}))["main"]


def model(profile=PLAIN):
    return AnalyticModel({"c": profile, "acme": profile})


def seconds(func, target="host", precision=""):
    return [e.seconds for e in model().units(unit_calls(func), target, precision)]


def test_a_product_takes_its_multiply_adds_and_its_bytes_and_a_call():
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(5, 3))
    func = typed([x, w], relay.nn.dense(x, w))
    moved = 4 * (2 * 3 + 5 * 3 + 2 * 5)
    assert seconds(func) == [pytest.approx(2 * 3 * 5 / 1e6 + moved / 1e4 + 0.5)]


def test_a_product_computes_in_the_precision_that_is_asked_for():
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(5, 3))
    func = typed([x, w], relay.nn.dense(x, w))
    assert seconds(func)[0] - seconds(func, precision="bf16")[0] == pytest.approx(30 / 1e6 - 30 / 4e6)


def test_what_follows_a_product_costs_its_steps_and_no_bytes_of_its_own():
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(5, 3))
    func = typed([x, w], relay.nn.relu(relay.nn.dense(x, w)))
    dense, relu = seconds(func)
    assert dense == pytest.approx(30 / 1e6 + 4 * (6 + 15) / 1e4)
    # its steps and the result that it stores; as the heavier of the two it also pays the call of their kernel
    assert relu == pytest.approx(10 / 1e3 + 4 * 10 / 1e4 + 0.5)


def test_what_is_fused_is_paid_once_and_alone_for_itself():
    x = relay.var("x", shape=(10,))
    both = typed([x], relay.exp(relay.nn.relu(x)))
    alone = [seconds(typed([x], op(x)))[0] for op in (relay.nn.relu, relay.exp)]
    assert sum(seconds(both)) == pytest.approx(sum(alone) - 0.5 - 2 * 40 / 1e4)


def test_a_reshape_is_free_and_a_composite_is_one_kernel():
    x = relay.var("x", shape=(10,))
    assert seconds(typed([x], relay.reshape(x, (2, 5)))) == [0.0]
    p = relay.var("p", shape=(10,))
    inner = relay.Function([p], relay.exp(relay.nn.relu(p))).with_attr("Composite", "acme.both")
    composite = typed([x], relay.Call(inner, [x]))
    assert seconds(composite, "acme") == [pytest.approx(sum(seconds(typed([x], relay.exp(relay.nn.relu(x))))))]


def test_constants_stream_past_a_product_while_it_computes():
    x = relay.var("x", shape=(1, 30))
    weights = relay.const([[1.0] * 30] * 5, "float32")
    func = typed([x], relay.nn.dense(x, weights))
    assert seconds(func) == [pytest.approx(max(150 / 1e6, 600 / 1e3) + 4 * 35 / 1e4 + 0.5)]


def test_data_beyond_the_nearer_memory_pass_at_the_rate_of_the_farther():
    x = relay.var("x", shape=(1000,))
    assert seconds(typed([x], relay.nn.relu(x))) == [pytest.approx(1000 / 1e3 + 8000 / 1e3 + 0.5)]


def test_columns_are_padded_to_the_lanes():
    wide = replace(PLAIN, lanes=16, overhead=2.0)
    assert product_seconds(ProductWork(1, 3, 17, 5), wide, "float32") == pytest.approx(3 * 32 * (5 + 2) / 1e6)


def test_winograds_method_is_taken_where_it_is_cheaper():
    product = ProductWork(1, 64, 8, 72, (1, 8, 8))
    tiled = replace(PLAIN, winograd=True, transform=1e9, memories=(Memory(math.inf, 1e9),))
    sums, transformed = 36 * 4 * 8 * 8 / 1e6, 4 * 36 * 16 / 1e9
    assert product_seconds(product, tiled, "float32") == pytest.approx(sums + transformed)
    slow = replace(tiled, transform=1.0)
    assert product_seconds(product, slow, "float32") == pytest.approx(64 * 8 * 72 / 1e6)


def test_a_launch_and_a_transfer_are_those_of_the_device():
    host = AnalyticModel(
        {"c": Profile.from_json({**PLAIN.to_json(), "latency": 0, "upload": None, "download": None}), "acme": PLAIN}
    )
    assert host.launch("acme").seconds == 2.0
    assert host.transfer(20, "host", "acme").seconds == 1.0 + 2.0
    assert host.transfer(20, "acme", "host").seconds == 1.0 + 4.0
    assert host.transfer(20, "host", "c").seconds == 0.0


def test_a_device_that_nobody_described_is_an_error_that_says_what_to_do():
    class Far(Backend):
        name = "far"
        devices = ("far",)

    BACKENDS.register("far", Far(), where="here")
    try:
        with pytest.raises(PartitionError, match="know nothing of the device of backend 'far': give a table"):
            AnalyticModel().launch("far")
    finally:
        BACKENDS.unregister("far")


def test_a_registered_profile_is_that_of_the_backends_device():
    class Far(Backend):
        name = "far"
        devices = ("far",)
        kind = "far"

        def device_kind(self):
            return self.kind

    BACKENDS.register("far", Far(), where="here")
    try:
        register_profile("far", PLAIN)
        register_profile("far/cpu", replace(PLAIN, launch=7.0))
        assert AnalyticModel().launch("far").seconds == 2.0
        Far.kind = "cpu"
        assert AnalyticModel().launch("far").seconds == 7.0
        with pytest.raises(RegistryError, match="profile of a device 'far' .*test_analytic.py"):
            register_profile("far", PLAIN)
    finally:
        BACKENDS.unregister("far")
        for name in ("far", "far/cpu"):
            PROFILES.unregister(name)


def test_a_profile_survives_json_and_a_damaged_one_is_refused():
    assert Profile.from_json(PLAIN.to_json()) == PLAIN
    for wrong in (
        {},
        {**PLAIN.to_json(), "window": -1},
        {**PLAIN.to_json(), "memories": []},
        {**PLAIN.to_json(), "kernel": None},
    ):
        with pytest.raises(PartitionError, match="no profile of a device"):
            Profile.from_json(wrong)


def conv(data, weight, **attrs):
    return work_of(typed([data, weight], relay.nn.conv2d(data, weight, **attrs)).body)


def test_the_work_of_convolutions_is_that_of_their_matrices():
    x = relay.var("x", shape=(1, 8, 6, 6))
    full = conv(x, relay.var("w", shape=(4, 8, 3, 3)), padding=(1, 1))
    assert full.kind is WorkKind.PRODUCT and full.product == ProductWork(1, 36, 4, 72, (1, 6, 6), True)
    strided = conv(x, relay.var("w", shape=(4, 8, 3, 3)), strides=(2, 2))
    assert strided.product == ProductWork(1, 4, 4, 72, None, True)
    depthwise = conv(x, relay.var("w", shape=(8, 1, 3, 3)), groups=8)
    assert depthwise.kind is WorkKind.DEPTHWISE and depthwise.product == ProductWork(8, 16, 1, 9, None, True)


def test_the_work_of_other_operators_follows_from_what_they_are():
    x = relay.var("x", shape=(4, 6))
    kinds = {
        WorkKind.POINTWISE: relay.exp(x),
        WorkKind.MOVE: relay.transpose(x, (1, 0)),
        WorkKind.VIEW: relay.reshape(x, (24,)),
        WorkKind.REDUCTION: relay.sum(x, axis=0),
        WorkKind.ROWS: relay.nn.softmax(x),
        WorkKind.LIBRARY: relay.sort(x),
    }
    found = {kind: work_of(typed([x], body).body) for kind, body in kinds.items()}
    assert {kind: work.kind for kind, work in found.items()} == {kind: kind for kind in kinds}
    assert found[WorkKind.POINTWISE].costly == 1.0 and found[WorkKind.REDUCTION].elements == 24


def test_a_softmax_between_two_products_is_one_kernel_with_them():
    q, k, v = (relay.var(n, shape=(2, 4, 8)) for n in "qkv")
    scores = relay.nn.softmax(relay.nn.batch_matmul(q, k))
    func = typed([q, k, v], relay.nn.batch_matmul(scores, relay.transpose(v, (0, 2, 1))))
    # the transpose is the product's flag by then
    assert [[s.call.op.name for s in kernel.steps] for kernel in kernels_of(unit_calls(func))] == [
        ["nn.batch_matmul", "nn.softmax", "nn.batch_matmul"]
    ]


def test_a_value_that_two_kernels_read_is_stored_once_and_read_by_each():
    x = relay.var("x", shape=(4, 6))
    value = relay.nn.softmax(x)
    func = typed([x], relay.add(relay.sum(value, axis=1), relay.max(value, axis=1)))
    steps = [step for kernel in kernels_of(unit_calls(func)) for step in kernel.steps]
    softmax = next(s for s in steps if s.work.kind is WorkKind.ROWS)
    readers = [s.reads for s in steps if s.work.kind is WorkKind.REDUCTION]
    assert softmax.writes == 96 and readers == [96, 96]
