"""Calls as a function of their own, and who pays for what passes make of them."""

import numpy as np
import pytest

from byoc import relay
from byoc.ir.module import IRModule
from byoc.ir.op import get_op
from byoc.ir.passes.instrument import PassInstrument
from byoc.ir.passes.transform import PassContext
from byoc.ir.span import SequentialSpan, Span, span_names
from byoc.partition.costs import AnalyticModel, analytic
from byoc.partition.costs.kernels import grouping_of, kernels_of
from byoc.partition.costs.model import unit_calls
from byoc.partition.costs.profile import HOST_DEFAULTS
from byoc.partition.costs.share import form_of, function_of, numbers_of
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


def a_product(columns=8, scale=2.0, alpha=0.1, shape=(6, 8), twice=False):
    """A fresh graph: a product, scaled, and a rectifier that leaks."""
    x, w = var("x", *shape), var("w", columns, shape[1])
    scaled = relay.multiply(relay.nn.dense(x, w), relay.const(np.full(columns, scale, "float32")))
    leaking = relay.nn.leaky_relu(scaled, alpha)
    return typed([x, w], relay.add(leaking, leaking if twice else scaled))


def form(function, leaving=()):
    calls = unit_calls(function)
    return form_of(calls, [calls[k] for k in leaving])


def test_shares_that_are_alike_have_one_form():
    assert form(a_product()) == form(a_product()) is not None
    others = [
        form(a_product(columns=4)),
        form(a_product(scale=1.0)),  # a constant by which passes decide
        form(a_product(alpha=0.2)),
        form(a_product(shape=(3, 8))),
        form(a_product(twice=True)),
        form(a_product(), leaving=[0]),
    ]
    assert len({form(a_product()), *others}) == 7


def test_a_value_that_is_read_twice_is_not_two_values():
    x, y = var("x", 4), var("y", 4)
    assert form(typed([x], relay.add(x, x))) != form(typed([x, y], relay.add(x, y)))


def test_a_composite_is_known_by_its_body():
    def composite(activation):
        p = var("p", 4)
        body = relay.Function([p], activation(p), attrs={"Composite": "acme.act"})
        x = var("x", 4)
        return typed([x], relay.Call(body, [x]))

    assert form(composite(relay.nn.relu)) == form(composite(relay.nn.relu)) is not None
    assert form(composite(relay.nn.relu)) != form(composite(relay.exp))


def test_a_branch_in_a_composite_has_no_form():
    x = var("x", 4)
    branch = relay.If(relay.var("c", shape=(), dtype="bool"), relay.exp(x), x)
    function = relay.Function([x, branch.cond], branch, attrs={"Composite": "acme.branch"})
    arguments = [var("y", 4), relay.var("d", shape=(), dtype="bool")]
    assert form(typed(arguments, relay.Call(function, arguments))) is None


def count_kernels(monkeypatch):
    asked = []

    def counted(calls, *arguments, **named):
        asked.append(len(calls))
        return kernels_of(calls, *arguments, **named)

    monkeypatch.setattr(analytic, "kernels_of", counted)
    return asked


def test_a_model_that_is_priced_again_is_not_grouped_again(monkeypatch):
    asked = count_kernels(monkeypatch)
    first, second = seconds(a_product(columns=24)), seconds(a_product(columns=24))
    assert first == second and len(asked) == 1
    assert seconds(a_product(columns=24), target="c") == first and len(asked) == 2  # of another target: asked anew
    with PassContext(opt_level=0):
        seconds(a_product(columns=24))
    assert len(asked) == 3


def test_an_operator_that_changed_is_priced_anew(monkeypatch):
    asked = count_kernels(monkeypatch)
    seconds(a_product(columns=40))
    get_op("nn.leaky_relu").set_attr("test.priced_anew", 1)
    try:
        seconds(a_product(columns=40))
    finally:
        get_op("nn.leaky_relu").reset_attr("test.priced_anew")
    assert len(asked) == 2
