"""Recurrences: how they are distinguished from other stages, what they mean, and their loop over steps in C."""

import numpy as np
import pytest

from byoc import relay, te
from byoc.codegen.c.backend import compile_functions
from byoc.codegen.c.contraction.shape import PANEL
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl.backend import OpenCLBackend
from byoc.codegen.opencl.backend import compile_functions as compile_opencl
from byoc.codegen.opencl.emit import emit_programs
from byoc.errors import InternalError, TypeInferenceError
from byoc.ir.types import Any, TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call
from byoc.relay.op.attributes.recurrent import GRUSequenceAttrs, LSTMSequenceAttrs, RNNSequenceAttrs
from byoc.relay.traverse import post_order
from byoc.runtime.kernels import get_kernel
from byoc.runtime.opencl import ready_kernels
from byoc.te.walk import loaded_tensors

X = te.placeholder((4, 3), name="x")


def running_sum():
    total = te.state((4, 3), "float32", "total")
    before = te.compute((4, 3), lambda t, i: te.if_then_else(t > 0, total[t - 1, i], 0.0), "before")
    te.update(total, lambda t, i: before[t, i] + X[t, i])
    return total, before


def running_sum_stages(total):
    """The stages of a running sum, from its result."""
    return [*dict.fromkeys(t for t in loaded_tensors(total.body) if t is not X and t is not total), total]


def test_a_recurrence_is_what_reads_itself_in_the_order_of_one_step():
    total, before = running_sum()
    doubled = te.compute((4, 3), lambda t, i: X[t, i] * 2.0, "doubled")
    last = te.compute((3,), lambda i: total[3, i] + doubled[0, i], "last")
    stages = [total, before, doubled, last]
    assert te.recurrence(stages) == (before, total)
    assert te.in_phases(stages) == ((doubled,), (before, total), (last,))
    assert te.recurrence([doubled]) == () and te.in_phases([doubled]) == ((doubled,), (), ())


def test_a_recurrence_means_one_step_after_another():
    total, _ = running_sum()
    last = te.compute((3,), lambda i: total[3, i] * 2.0, "last")
    x = np.arange(12, dtype="float32").reshape(4, 3)
    np.testing.assert_array_equal(te.evaluate(total, {X: x}), np.cumsum(x, axis=0))
    np.testing.assert_array_equal(te.evaluate(last, {X: x}), x.sum(axis=0) * 2)


def test_two_tensors_that_need_each_other_within_a_step_are_an_error():
    a, b = te.state((4,), "float32", "a"), te.state((4,), "float32", "b")
    te.update(a, lambda t: b[t] + 1.0)
    te.update(b, lambda t: a[t] + 1.0)
    with pytest.raises(InternalError, match="a, b need each other within one step"):
        te.recurrence([a, b])


def test_a_state_is_defined_once_and_by_elements_of_its_dtype():
    total, _ = running_sum()
    with pytest.raises(InternalError, match="cannot be defined"):
        te.update(total, lambda t, i: X[t, i])
    with pytest.raises(InternalError, match="cannot be defined"):
        te.update(te.state((4,), "float32", "a"), lambda t: t)


def test_a_recurrence_over_what_another_gives_is_no_stage_of_it():
    """They are loops one after another; as stages of one loop the second would read what is not there yet."""
    first, _ = running_sum()
    doubled = te.compute((4, 3), lambda t, i: first[3 - t, i] * 2.0, "doubled")
    second = te.state((4, 3), "float32", "second")
    te.update(second, lambda t, i: te.if_then_else(t > 0, second[t - 1, i], 0.0) + doubled[t, i])
    with pytest.raises(InternalError, match="more than one recurrence"):
        te.recurrence([*running_sum_stages(first), doubled, second])
    longer = te.state((9, 3), "float32", "longer")
    te.update(longer, lambda t, i: te.if_then_else(t > 0, longer[t - 1, i], 1.0))
    with pytest.raises(InternalError, match="more than one recurrence"):
        te.recurrence([*running_sum_stages(first), longer])


def gru(**attrs):
    """A GRU of three steps, two rows and eight units behind a relu of its gates, as a function of all its inputs."""
    shapes = {"gates": (3, 2, 24), "recurrence": (8, 24), "hidden": (2, 8)}
    params = [relay.var(name, shape=shape) for name, shape in shapes.items()]
    inputs = [relay.nn.relu(params[0]), *params[1:]]
    return relay.Function(params, relay.nn.gru_sequence(inputs, GRUSequenceAttrs(**attrs))[0])


def test_the_stages_of_a_recurrence_are_one_group_and_stay_as_they_were_written():
    program = lower_function(gru(), "f")
    assert [len(g.stages) for g in program.groups] == [1, 6]
    assert [s.name for s in te.recurrence(program.groups[1].stages)] == ["before", "sums", "reset", "inner", "hidden"]


def test_a_region_is_as_many_groups_as_it_has_fused_operators():
    """What PartitionGraph marks as Primitive is whole for passes, not one loop nest."""
    x = relay.var("x", shape=(2, 3, 8, 8))
    first = relay.nn.conv2d(x, relay.const(np.ones((4, 3, 3, 3), "float32")), padding=(1, 1))
    second = relay.nn.conv2d(relay.nn.relu(first), relay.const(np.ones((4, 4, 3, 3), "float32")))
    attrs = {"Primitive": 1, "Compiler": "c", "global_symbol": "f"}
    region = fuse_body(relay.Function([x], second, attrs=attrs))
    assert [g.name for g in lower_function(region, "f").groups] == ["fused_nn_conv2d_nn_relu", "nn_conv2d"]


def test_the_weights_of_a_recurrence_are_packed_into_panels():
    weights = relay.const(np.ones((64, 64), "float32"))
    x, hidden = relay.var("x", shape=(5, 1, 64)), relay.var("h", shape=(1, 64))
    body = relay.nn.rnn_sequence([x, weights, hidden], RNNSequenceAttrs())[0]
    program = prepare(lower_function(relay.Function([x, hidden], body), "f"), Machine(32, 12))
    (group,) = program.groups
    ring = te.recurrence(group.stages)
    assert [s.name for s in ring] == ["before", "sums", "hidden"] and program.outputs[0] in ring
    assert [t.tag for t, _ in program.constants] == [PANEL]


@pytest.mark.needs_cc
def test_the_code_of_a_recurrence_does_not_grow_with_its_steps():
    def source(steps):
        params = [relay.var(n, shape=s) for n, s in (("x", (steps, 1, 16)), ("r", (16, 16)), ("h", (1, 16)))]
        body = relay.nn.rnn_sequence(params, RNNSequenceAttrs())[0]
        return compile_functions({"f": relay.Function(params, body)}).get_source()

    short, long = source(3), source(700)
    assert len(short.splitlines()) == len(long.splitlines())
    assert "step < 3;" in short and "step < 700;" in long


@pytest.mark.needs_cc
def test_hundreds_of_steps_are_computed():
    rng = np.random.default_rng(0)
    x, r, h = (rng.uniform(-0.2, 0.2, s).astype("float32") for s in ((700, 2, 33), (33, 33), (2, 33)))
    params = [relay.var(n, shape=a.shape) for n, a in (("x", x), ("r", r), ("h", h))]
    body = relay.nn.rnn_sequence(params, RNNSequenceAttrs())
    function = relay.Function(params, body.astuple())
    module = compile_functions({"f": function}, {"flags": ["-Wall", "-Wextra", "-Wcast-qual", "-Werror"]})
    whole, last = np.empty((700, 2, 33), "float32"), np.empty((2, 33), "float32")
    module["f"](x, r, h, whole, last)
    expected, _ = get_kernel("nn.rnn_sequence")(x, r, h, activations=("Tanh",), alphas=(0.0,), betas=(0.0,))
    np.testing.assert_allclose(whole, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(last, whole[-1])


LAYERS = {
    "lstm": (relay.nn.lstm_sequence, LSTMSequenceAttrs, 4, 2),
    "gru": (relay.nn.gru_sequence, GRUSequenceAttrs, 3, 1),
    "rnn": (relay.nn.rnn_sequence, RNNSequenceAttrs, 1, 1),
}
VARIANTS = [
    ("lstm", {}),
    ("lstm", {"peepholes": True, "input_forget": True, "clip": 0.3}),
    ("lstm", {"masked": True, "activations": ("HardSigmoid", "Softsign", "Elu"), "alphas": (0.3, 0.0, 0.7)}),
    ("lstm", {"bytes_of_hidden": True}),
    ("gru", {}),
    ("gru", {"linear_before_reset": True, "masked": True}),
    ("rnn", {}),
    ("rnn", {"masked": True, "activations": ("Softplus",)}),
]


def layer(kind, attrs, steps, batch=3, size=21):
    """A layer of that many *steps* (which may be free) as a function, arrays for five steps, and results to fill."""
    build, kind_of_attrs, gates, states = LAYERS[kind]
    attrs, rng = kind_of_attrs(**attrs), np.random.default_rng(7)
    extra = {"peepholes": (3 * size,), "bias": (size,), "lengths": (batch,)}
    shapes = [(steps, batch, gates * size), (size, gates * size), *[(batch, size)] * states]
    shapes += [extra[name] for name in attrs.extra]
    params, arrays = [], []
    for k, shape in enumerate(shapes):
        is_length = attrs.masked and k == len(shapes) - 1
        params.append(relay.Var(f"p{k}", TensorType(shape, "int32" if is_length else "float32")))
        known = tuple(5 if isinstance(d, Any) else d for d in shape)
        array = np.arange(batch) * 2 if is_length else rng.uniform(-0.6, 0.6, known)
        arrays.append(array.astype("int32" if is_length else "float32"))
    outputs = [np.empty((5, batch, size), "float32"), *(np.empty((batch, size), "float32") for _ in range(states))]
    return relay.Function(params, build(params, attrs).astuple()), arrays, outputs


@pytest.mark.needs_opencl
@pytest.mark.parametrize("options", [{}, {"schedules": "gpu"}, {"schedules": "gpu", "mode": "memory=image"}], ids=str)
@pytest.mark.parametrize("steps", [5, Any("steps")], ids=["fixed", "free"])
@pytest.mark.parametrize(("kind", "attrs"), VARIANTS, ids=str)
def test_opencl_goes_through_the_steps_on_the_device(kind, attrs, steps, options):
    function, arrays, outputs = layer(kind, attrs, steps)
    infer_expr(function)
    assert OpenCLBackend().supports(next(n for n in post_order(function.body) if isinstance(n, Call)))
    module = compile_opencl({"f": function}, options)
    module["f"](*arrays, *outputs)
    attributes = LAYERS[kind][1](**attrs).as_dict()
    for found, expected in zip(outputs, get_kernel(f"nn.{kind}_sequence")(*arrays, **attributes), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    (plan,) = module.plans
    assert len(plan.launches) < 10, "the steps are no launches"


@pytest.mark.needs_opencl
@pytest.mark.parametrize("most", [1, 16])
def test_a_device_that_takes_smaller_groups_goes_through_the_same_steps(most, monkeypatch):
    monkeypatch.setattr(ready_kernels, "most_items", lambda cl, kernel, device, limit: most)
    function, arrays, outputs = layer("lstm", {}, 5)
    compile_opencl({"f": function}, {"schedules": "gpu"})["f"](*arrays, *outputs)
    for found, expected in zip(
        outputs, get_kernel("nn.lstm_sequence")(*arrays, **LSTMSequenceAttrs().as_dict()), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_steps_of_opencl_are_a_loop_of_one_work_group():
    function, _, _ = layer("gru", {}, 700)
    source, (plan,) = emit_programs([lower_function(function, "f")])
    (steps,) = (v for n in plan.launches for v in n.variants if v.schedule == "steps")
    assert steps.groups and steps.extent == 1
    assert "step < 700;" in source and source.count("barrier(CLK_GLOBAL_MEM_FENCE);") == 5  # behind each stage


def test_the_gates_of_a_layer_must_fit_its_recurrence():
    params = [relay.Var(n, TensorType(s)) for n, s in (("x", (3, 2, 25)), ("r", (8, 24)), ("h", (2, 8)))]
    call = relay.nn.gru_sequence(params, GRUSequenceAttrs()).astuple()
    with pytest.raises(TypeInferenceError, match=r"gates must have the shape \[3, 2, 24\]"):
        infer_expr(relay.Function(params, call))
