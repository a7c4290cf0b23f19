"""recast: chosen operators between casts, layers counted from the inputs."""

from __future__ import annotations

import pytest


def _conv(relay, data, weight, out_dtype="float32"):
    return relay.nn.conv2d(data, weight, padding=(1, 1), out_dtype=out_dtype)


def _inputs(relay, *names):
    shapes = {"x": [8, 8, 8, 8]}
    return [relay.var(name, shape=shapes.get(name, [8, 8, 3, 3])) for name in names]


def _narrow(relay, data, weight):
    """The convolution in int8, its result as float32 again."""
    data, weight = relay.cast(data, "int8"), relay.cast(weight, "int8")
    return relay.cast(_conv(relay, data, weight, "int32"), "float32")


@pytest.fixture
def two_layers(relay):
    x, w, w2 = _inputs(relay, "x", "w", "w2")
    return relay.Function([x, w, w2], _conv(relay, _conv(relay, x, w), w2))


def test_a_convolution_is_between_casts_with_its_result_in_another_dtype(tvm, relay):
    x, w = _inputs(relay, "x", "w")
    found = relay.transform.recast(relay.Function([x, w], _conv(relay, x, w)), "int8", "int32")
    x, w = _inputs(relay, "x", "w")
    assert tvm.ir.structural_equal(found, relay.Function([x, w], _narrow(relay, x, w)))


@pytest.mark.parametrize(
    ("skipped", "narrow"), [([], (True, True)), ([0], (False, True)), ([-1], (True, False)), ([0, 1], (False, False))]
)
def test_layers_are_counted_from_the_inputs_and_negative_ones_from_the_last(tvm, relay, two_layers, skipped, narrow):
    found = relay.transform.recast(two_layers, "int8", "int32", skip_layers=skipped)
    x, w, w2 = _inputs(relay, "x", "w", "w2")
    first = _narrow(relay, x, w) if narrow[0] else _conv(relay, x, w)
    second = _narrow(relay, first, w2) if narrow[1] else _conv(relay, first, w2)
    assert tvm.ir.structural_equal(found, relay.Function([x, w, w2], second))


def test_the_numbers_of_skipped_layers_stay_the_caller_s(relay, two_layers):
    skipped = [-1]
    relay.transform.recast(two_layers, "int8", "int32", skip_layers=skipped)
    assert skipped == [-1]


def test_the_fields_of_what_is_joined_are_cast(tvm, relay):
    x, y = relay.var("x", shape=[1, 4]), relay.var("y", shape=[1, 4])
    joined = relay.Function([x, y], relay.op.concatenate(relay.Tuple([x, y]), axis=1))
    found = relay.transform.recast(joined, "float16", "float32", ops=["concatenate"])
    fields = relay.Tuple([relay.cast(x, "float16"), relay.cast(y, "float16")])
    wanted = relay.cast(relay.op.concatenate(fields, axis=1), "float32")
    assert tvm.ir.structural_equal(found, relay.Function([x, y], wanted))


def test_a_tuple_that_is_not_written_out_stays(tvm, relay):
    x = relay.var("x", relay.TupleType([relay.TensorType((1, 4)), relay.TensorType((1, 4))]))
    joined, again = (relay.Function([x], relay.op.concatenate(x, axis=1)) for _ in range(2))
    assert tvm.ir.structural_equal(relay.transform.recast(joined, "float16", "float32", ops=["concatenate"]), again)


def test_an_operator_without_attributes_gets_casts_alone(tvm, relay):
    x = relay.var("x", shape=[8, 8])
    found = relay.transform.recast(relay.Function([x], relay.nn.relu(x)), "float16", "float16", ops=["nn.relu"])
    wanted = relay.Function([x], relay.cast(relay.nn.relu(relay.cast(x, "float16")), "float32"))
    assert tvm.ir.structural_equal(found, wanted)


def test_a_module_gives_a_module(tvm, relay, two_layers):
    mod = relay.transform.recast(tvm.IRModule.from_expr(two_layers), "int8", "int32")
    assert list(mod.functions) == [mod.get_global_var("main")]
    assert relay.analysis.list_op_freqs(mod) == {"cast": 6, "nn.conv2d": 2}
    assert relay.transform.InferType()(mod)["main"].body.checked_type == relay.TensorType((8, 8, 8, 8))


def test_what_gives_several_tensors_is_refused(tvm, relay):
    x = relay.var("x", shape=[4, 8])
    split = relay.Function([x], relay.split(x, 2).astuple())
    with pytest.raises(tvm.TVMError, match="recast casts what gives one tensor, split gives"):
        relay.transform.recast(split, "float16", "float16", ops=["split"])


def test_the_module_of_that_name_is_there_too(relay):
    from tvm.relay.transform.recast import recast

    assert recast is relay.transform.recast
