"""relay.testing's passes over one expression, its counts, annotators and attributes for a time."""

import numpy as np
import pytest

from byoc import relay
from byoc.annex import testing
from byoc.annex.testing.byoc import CcompilerAnnotator, WhiteListAnnotator
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.relay import transform


def test_a_pass_over_an_expression_gives_an_expression_and_over_a_function_a_function():
    x = relay.var("x", shape=(2,))
    assert testing.run_infer_type(relay.exp(x)).checked_type == relay.TensorType((2,))
    folded = testing.run_opt_pass(relay.add(relay.const(1.0), relay.const(2.0)), transform.FoldConstant())
    assert isinstance(folded, relay.Constant) and float(folded.data.numpy()) == 3
    function = testing.run_opt_pass(relay.Function([x], x), [transform.InferType(), transform.FoldConstant()])
    assert isinstance(function, relay.Function) and function.ret_type == relay.TensorType((2,))


def test_a_sequence_runs_at_the_level_of_the_context_as_everywhere():
    x = relay.var("x", shape=(2,))
    twice = relay.Function([x], relay.add(relay.exp(x), relay.exp(x)))
    step = relay.transform.Sequential([transform.EliminateCommonSubexpr()])
    assert testing.count_ops(testing.run_opt_pass(twice, step))["exp"] == 2
    with relay.transform.PassContext(opt_level=3):
        assert testing.count_ops(testing.run_opt_pass(twice, step))["exp"] == 1


def test_what_is_no_pass_is_refused():
    with pytest.raises(UserError, match="takes a pass or a list of passes"):
        testing.run_opt_pass(relay.const(1), [len])


def test_calls_of_operators_are_counted_once_each():
    x = relay.var("x", shape=(2,))
    shared = relay.exp(x)
    func = relay.Function([x], relay.add(shared, relay.add(shared, relay.exp(shared))))
    assert testing.count_ops(func) == {"exp": 2, "add": 2}


def test_random_arrays_have_the_dtype_and_shape_asked_for():
    array = testing.rand("float16", 2, 3)
    assert (array.dtype, array.shape) == ("float16", (2, 3)) and 0 <= array.numpy().min() <= array.numpy().max() < 1


def test_an_attribute_of_an_operator_is_put_back():
    op = relay.op.get("nn.relu")
    before = op.get_attr("TOpPattern")
    with testing.TempOpAttr("nn.relu", "TOpPattern", 8), testing.TempOpAttr("nn.relu", "FCompat", len):
        assert op.get_attr("TOpPattern") == 8 and op.get_attr("FCompat") is len
    assert op.get_attr("TOpPattern") == before and not op.has_attr("FCompat")


def annotated(expr, annotator):
    return annotator.visit(relay.Function(relay.analysis.free_vars(expr), expr))


def text(func):
    return IRModule.from_expr(func).astext(False)


def test_the_annotator_for_ccompiler_makes_one_region_of_addition_to_multiplication():
    x, y, z, p = (relay.var(name, shape=(10, 10)) for name in "xyzp")
    func = annotated(relay.multiply(relay.subtract(relay.add(x, y), z), p), CcompilerAnnotator())
    found = testing.count_ops(func)
    assert found == {
        "add": 1,
        "subtract": 1,
        "multiply": 1,
        "annotation.compiler_begin": 4,
        "annotation.compiler_end": 1,
    }
    parted = transform.PartitionGraph()(transform.InferType()(IRModule.from_expr(func)))
    (region,) = [f for v, f in parted.functions.items() if v.name_hint != "main"]
    assert testing.count_ops(region) == {"add": 1, "subtract": 1, "multiply": 1}
    assert region.attrs["Compiler"] == "ccompiler" and len(region.params) == 4


def test_the_annotator_for_ccompiler_leaves_a_product_without_addition_alone():
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    assert "annotation.compiler_end" not in testing.count_ops(annotated(relay.multiply(x, y), CcompilerAnnotator()))


def test_the_annotator_of_a_list_makes_a_region_a_call():
    x = relay.var("x", shape=(2,))
    func = annotated(relay.negative(relay.exp(relay.abs(x))), WhiteListAnnotator(["exp", "abs"], "acme"))
    found = testing.count_ops(func)
    assert (found["annotation.compiler_begin"], found["annotation.compiler_end"]) == (2, 2)
    parted = transform.PartitionGraph()(transform.InferType()(IRModule.from_expr(func)))
    assert sorted(f.attrs.get("Compiler", "") for f in parted.functions.values()) == ["", "acme", "acme"]


def test_numbers_of_a_workload_go_to_the_parameters_by_name():
    mod, params = testing.mlp.get_workload(1)
    bound = relay.bind(mod["main"], {p: params[p.name_hint] for p in mod["main"].params if p.name_hint in params})
    assert [p.name_hint for p in bound.params] == ["data"]
    assert np.array_equal(params["fc1_bias"].numpy(), np.zeros(128))
