"""Calls as a function of their own, and who pays for what passes make of them."""

import pytest

from byoc import relay
from byoc.ir.module import IRModule
from byoc.ir.passes.instrument import PassInstrument
from byoc.ir.passes.transform import PassContext
from byoc.ir.span import SequentialSpan, Span, span_names
from byoc.partition.costs import AnalyticModel
from byoc.partition.costs.kernels import grouping_of, kernels_of
from byoc.partition.costs.model import unit_calls
from byoc.partition.costs.profile import HOST_DEFAULTS
from byoc.partition.costs.share import function_of, numbers_of
from byoc.relay.transform import InferType
from byoc.relay.transform.fuse.fuse_ops import fuse_body


def typed(params, body):
    return InferType()(IRModule({"main": relay.Function(params, body)}))["main"]


def var(name, *shape):
    return relay.var(name, shape=shape)


def accounts(function, target="host"):
    """For each made call its operator and that of the call that pays for it, kernel by kernel."""
    kernels = kernels_of(unit_calls(function), grouping_of(target))
    return [[(s.call.op.name, s.unit.op.name) for s in kernel.steps] for kernel in kernels]


def seconds(function, leaving=(), target="host"):
    model = AnalyticModel({"c": HOST_DEFAULTS})
    return [e.seconds for e in model.share(unit_calls(function), leaving, target)]


def test_a_function_of_calls_keeps_their_names_and_says_their_numbers():
    x = var("x", 4)
    first = relay.exp(x)
    first.span = SequentialSpan((Span.named("a"), Span.named("b")))
    func = typed([x], relay.nn.relu(first))
    made = unit_calls(function_of(unit_calls(func)))
    assert [numbers_of(call.span) for call in made] == [[0], [1]]
    assert [span_names(call.span) for call in made] == [("a", "b"), ()]
    assert numbers_of(first.span) == [] and func.body.span is None  # those that were given are as they were


def test_what_reads_a_result_from_outside_ends_its_kernel():
    x = var("x", 100)
    func = typed([x], relay.nn.relu(relay.exp(x)))
    calls = unit_calls(func)
    assert len(kernels_of(calls)) == 1 and len(kernels_of(calls, leaving=calls[:1])) == 2
    stored = 2 * 400 / HOST_DEFAULTS.bandwidth(800) + HOST_DEFAULTS.kernel  # written, read again, and another kernel
    assert sum(seconds(func, calls[:1])) == pytest.approx(sum(seconds(func)) + stored)


def test_a_view_that_was_carried_behind_others_is_paid_by_the_call_that_wanted_it():
    x, w = var("x", 6, 8), var("w", 8, 8)
    heads = relay.transpose(relay.reshape(relay.nn.dense(x, w), (6, 2, 4)), (1, 0, 2))
    found = accounts(typed([x, w], relay.sum(relay.nn.relu(heads), axis=1)))
    # the rectifier goes before the view, which stands behind the product by then
    assert ("nn.relu", "nn.relu") in found[0] and ("nn.dense", "nn.dense") in found[0]
    assert ("transpose", "transpose") in [pair for kernel in found for pair in kernel]


def test_what_is_folded_into_another_costs_nothing():
    x, w = var("x", 4, 8), relay.const([[0.5] * 8] * 3, "float32")
    func = typed([x], relay.multiply(relay.nn.dense(x, w), relay.const(3.0)))
    dense, scale = seconds(func)
    assert dense > 0 and scale == 0.0
    assert seconds(func, target="opencl")[1] > 0, "its generator folds nothing"


def test_the_units_pay_for_all_kernels_and_for_no_more():
    x, w = var("x", 1, 32, 9, 9), relay.const([[[[0.5] * 3] * 3] * 32] * 16, "float32")
    norm = relay.nn.softmax(relay.nn.relu(relay.nn.conv2d(x, w)), axis=1)
    func = typed([x], relay.Tuple([relay.sum(norm, axis=1), norm]))
    model = AnalyticModel({"c": HOST_DEFAULTS, "acme": HOST_DEFAULTS})
    for target, grouping in (("host", grouping_of("host")), ("acme", fuse_body)):
        kernels = kernels_of(unit_calls(func), grouping, [func.body.fields[1]])
        assert {id(s.unit) for k in kernels for s in k.steps} <= {id(c) for c in unit_calls(func)}
        paid = sum(e.seconds for e in model.share(unit_calls(func), [func.body.fields[1]], target))
        assert paid == pytest.approx(model.region(func, target).seconds)


def test_nobody_who_watches_passes_sees_those_that_are_only_priced():
    class Watch(PassInstrument):
        def __init__(self):
            self.seen = []

        def run_before_pass(self, mod, info):
            self.seen.append(info.name)

    watch, x = Watch(), var("x", 4)
    func = typed([x], relay.nn.relu(relay.exp(x)))
    with PassContext(instruments=[watch]):
        assert len(kernels_of(unit_calls(func))) == 1
    assert watch.seen == []
