"""The measured model, on a machine whose clock and builds are made up."""

import math
from dataclasses import replace

import numpy as np
import pytest

from byoc import relay
from byoc.driver.costs.alone import build_alone
from byoc.driver.costs.measured import MeasuredModel
from byoc.driver.costs.probes import nothing
from byoc.driver.costs.store import CostStore, Measurement
from byoc.driver.costs.timing import Turns, ready
from byoc.driver.costs.units import channels_innermost, key_of
from byoc.errors import CompileError
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.partition.costs import AnalyticModel
from byoc.partition.costs.model import unit_calls
from byoc.partition.costs.profile import GPU_DEFAULTS, HOST_DEFAULTS
from byoc.partition.costs.share import function_of
from byoc.relay.expr import Call
from byoc.relay.interpreter import evaluate
from byoc.relay.transform import InferType
from byoc.relay.traverse import post_order

CALL = 1e-3  # seconds of any call on this machine
PRICE = {"exp": 0.5, "nn.relu": 0.0, "nn.dense": 2.0, "tanh": 0.25}


class Machine:
    """Each operator takes its price; *broken* ones cannot be built. It stands for builds and for the clock."""

    def __init__(self, broken=()):
        self.now, self.broken, self.built = 0.0, broken, []

    def clock(self):
        return self.now

    def build(self, precision):
        return self._library

    def _library(self, mod):
        names = sorted(
            n.op.name
            for f in mod.functions.values()
            for n in post_order(f)
            if isinstance(n, Call) and isinstance(n.op, Op)
        )
        self.built.append(names)
        if any(name in self.broken for name in names):
            raise CompileError(f"no {names[0]} here")
        machine, seconds = self, CALL + sum(PRICE[name] for name in names)

        class Executor:
            def set_input(self, name, value):
                pass

            def run(self):
                machine.now += seconds

        class Library:
            def executor(self, threads):
                return Executor()

        return Library()


HOST = replace(HOST_DEFAULTS, kernel=0.0)
FAR = replace(GPU_DEFAULTS, launch=0.1, latency=0.05, upload=math.inf, download=math.inf, kernel=1e-6)


def model(machine, folder):
    analytic = AnalyticModel({"c": HOST, "opencl": FAR})
    return MeasuredModel(
        analytic,
        CostStore(folder),
        lambda backend: {"backend": backend},
        machine.build,
        1,
        Turns(2, 0.0),
        machine.clock,
    )


def typed(params, body):
    return InferType()(IRModule({"main": relay.Function(params, body)}))["main"]


def chain(*ops, shape=(8,)):
    x = relay.var("x", shape=shape)
    value = x
    for op in ops:
        value = op(value)
    return typed([x], value)


def seconds(estimates):
    return [e.seconds for e in estimates]


def test_a_kernel_is_timed_as_one_and_divided_among_its_calls(tmp_path):
    machine = Machine()
    found = model(machine, tmp_path).units(unit_calls(chain(relay.exp, relay.nn.relu)), "host")
    assert sum(seconds(found)) == pytest.approx(0.5)
    assert found[0].seconds > found[1].seconds > 0 and found[0].source == "measured"
    assert machine.built == [["exp", "nn.relu"], ["nn.relu"]]  # the second is the call that does nothing


def test_equal_kernels_are_measured_once_and_kept_for_the_next_process(tmp_path):
    x, w = relay.var("x", shape=(4, 4)), relay.var("w", shape=(4, 4))
    func = typed([x, w], relay.nn.dense(relay.nn.dense(x, w), w))
    machine = Machine()
    first = model(machine, tmp_path)
    assert seconds(first.units(unit_calls(func), "host")) == pytest.approx([2.0, 2.0])
    assert machine.built.count(["nn.dense"]) == 1
    again, later = Machine(), None
    later = model(again, tmp_path)
    assert seconds(later.units(unit_calls(func), "host")) == pytest.approx([2.0, 2.0])
    assert again.built == [] and later.measured == 0


def test_what_is_launched_elsewhere_is_measured_without_launch_and_transfers(tmp_path):
    found = model(Machine(), tmp_path).unit(unit_calls(chain(relay.exp))[0], "opencl")
    assert found.seconds == pytest.approx(0.5 - 0.1 - 2 * 0.05)


def test_a_unit_never_costs_less_than_a_kernels_call(tmp_path):
    found = model(Machine(), tmp_path).unit(unit_calls(chain(relay.tanh, shape=(1,)))[0], "opencl")
    assert found.seconds == pytest.approx(0.25 - 0.2)
    assert model(Machine(), tmp_path).unit(unit_calls(chain(relay.nn.relu))[0], "opencl").seconds == FAR.kernel


def test_a_call_of_nothing_at_a_busy_moment_hides_no_work(tmp_path):
    CostStore(tmp_path).add({"backend": "c", "precision": ""}, [Measurement(key_of(nothing()), 12.0)])
    x, w = relay.var("x", shape=(4, 4)), relay.var("w", shape=(4, 4))
    func = typed([x, w], relay.nn.dense(relay.tanh(x), w))
    found = model(Machine(), tmp_path).units(unit_calls(func), "host")
    assert sum(seconds(found)) == pytest.approx(2.0 - 0.25)  # not 0: the shorter of both calls bounds one of nothing


def test_what_cannot_be_built_is_no_candidate_and_says_why(tmp_path):
    found = model(Machine(broken=["exp"]), tmp_path).unit(unit_calls(chain(relay.exp))[0], "opencl")
    assert found.seconds == math.inf and found.source == "measured: no exp here"
    kept = model(Machine(), tmp_path).unit(unit_calls(chain(relay.exp))[0], "opencl")
    assert kept == found


def test_the_host_has_the_analytic_estimate_where_it_cannot_be_measured(tmp_path):
    found = model(Machine(broken=["exp"]), tmp_path).unit(unit_calls(chain(relay.exp))[0], "host")
    assert found.seconds < math.inf and found.source == "analytic, for it cannot be measured: no exp here"


def test_a_region_is_timed_whole(tmp_path):
    machine = Machine()
    found = model(machine, tmp_path).region(chain(relay.exp, relay.tanh), "opencl")
    assert found.seconds == pytest.approx(0.75 - 0.2) and ["exp", "tanh"] in machine.built


def test_a_view_is_not_built(tmp_path):
    machine = Machine()
    func = chain(lambda x: relay.reshape(x, (2, 4)))
    assert seconds(model(machine, tmp_path).units(unit_calls(func), "host")) == [0.0] and machine.built == []


def test_a_key_forgets_values_and_origins_and_keeps_shapes_and_attributes():
    def key(value, axis=0, shape=(2, 3)):
        x = relay.var("x", shape=shape)
        body = relay.sum(relay.add(x, relay.const(value, "float32")), axis=axis)
        return key_of(function_of(unit_calls(typed([x], body))))

    base = key([1.0, 2.0, 3.0])
    assert key([4.0, 5.0, 6.0]) == base
    assert base not in (key([[1.0, 2.0, 3.0]]), key([1.0, 2.0, 3.0], axis=1), key([1.0, 2.0, 3.0], shape=(4, 3)))


def test_a_kernel_alone_has_a_parameter_for_each_value_from_outside_and_a_result_for_each_that_leaves():
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    inner = relay.add(x, y)
    both = typed([x, y], relay.Tuple([relay.exp(inner), relay.concatenate([inner, x], axis=0)]))
    function = function_of([c for c in unit_calls(both) if c.op.name != "add"])
    result = InferType()(IRModule({"main": function}))["main"].body.checked_type
    assert len(function.params) == 2 and [tuple(t.shape) for t in result.fields] == [(4,), (8,)]


def test_images_are_also_measured_with_their_channels_innermost_on_the_host_alone(tmp_path):
    machine = Machine()
    PRICE["transpose"] = -0.1  # as if the order that the model has were dear
    try:
        func = chain(relay.exp, shape=(1, 2, 3, 4))
        near, far = (model(machine, tmp_path).unit(unit_calls(func)[0], t).seconds for t in ("host", "opencl"))
    finally:
        del PRICE["transpose"]
    assert near == pytest.approx(0.5 - 2 * 0.1) and far == pytest.approx(0.5 - 0.2)
    assert machine.built.count(["exp", "transpose", "transpose"]) == 1


def test_the_other_order_of_an_image_means_the_same():
    x, y = relay.var("x", shape=(1, 2, 3, 4)), relay.var("y", shape=(1,))
    func = typed([x, y], relay.add(x, y))
    other = channels_innermost(func)
    assert [tuple(p.checked_type.shape) for p in InferType()(IRModule({"main": other}))["main"].params] == [
        (1, 3, 4, 2),
        (1,),
    ]
    data = np.arange(24, dtype="float32").reshape(1, 2, 3, 4)
    outputs = [
        evaluate(InferType()(IRModule({"main": f})), [value, np.ones(1, "float32")])
        for f, value in ((func, data), (other, data.transpose(0, 2, 3, 1)))
    ]
    assert np.array_equal(outputs[0].transpose(0, 2, 3, 1), outputs[1])
    assert channels_innermost(chain(relay.exp)) is None


@pytest.mark.needs_cc
def test_what_takes_a_tuple_is_run_on_each_of_its_tensors():
    pair = relay.var("pair", relay.TupleType([relay.TensorType((4, 8)), relay.TensorType((2, 8))]))
    ready(relay.Function([pair], relay.concatenate(pair, axis=0)), "c", build_alone)()


def test_what_the_limit_of_time_does_not_reach_counts_by_estimates_and_is_measured_by_the_next_plan(tmp_path):
    machine, late = Machine(), []
    short = model(machine, tmp_path)
    short.late = lambda: late.append(True)
    first = short.unit(unit_calls(chain(relay.exp))[0], "opencl")
    assert first.source == "measured" and not late
    short.limit = machine.now  # which is over
    (call,) = unit_calls(chain(relay.tanh))
    estimate = short.unit(call, "opencl")
    assert late and estimate.source == "analytic, for the time to measure was over"
    assert estimate.seconds == AnalyticModel({"c": HOST, "opencl": FAR}).unit(call, "opencl").seconds
    assert machine.built == [["exp"], ["nn.relu"]]  # the call that does nothing is built for the first
    later = model(Machine(), tmp_path).unit(call, "opencl")
    assert later.source == "measured"
