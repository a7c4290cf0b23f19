"""AnnotateTarget, MergeCompilerRegions and PartitionGraph in the situations that Relay documents."""

import itertools
import random
import subprocess
import sys

import numpy as np
import pytest

from byoc import relay
from byoc.errors import InternalError, PartitionError
from byoc.ir.op import get_op
from byoc.ir.registry import GLOBAL_FUNCTIONS, register_func
from byoc.relay import op
from byoc.relay.analysis.regions.annotated_regions import AnnotatedRegionSet
from byoc.relay.analysis.regions.region_checks import check_regions
from byoc.relay.expr import Call, Constant, Function, If, Let, Tuple, TupleGetItem, Var
from byoc.relay.interpreter import evaluate
from byoc.relay.op.annotation import compiler_begin, compiler_end, compiler_of, is_begin, is_end
from byoc.relay.transform import AnnotateTarget, InferType, MergeCompilerRegions, PartitionGraph
from byoc.relay.transform.cut.annotate_target import annotate_function
from byoc.relay.transform.cut.merge_compiler_regions import merge_regions
from byoc.relay.traverse import post_order
from byoc.runtime.core.device import Device


@pytest.fixture(autouse=True)
def accelerators():
    """npu takes abs, negative and add; dsp takes add, exp and tanh."""
    taken = {"npu": ("abs", "negative", "add"), "dsp": ("add", "exp", "tanh")}
    for target, names in taken.items():
        for name in names:
            get_op(name).set_attr(f"target.{target}", lambda call: True)
    yield
    for target, names in taken.items():
        for name in names:
            get_op(name).reset_attr(f"target.{target}")


def var(name, shape=(2, 3), dtype="float32"):
    return relay.var(name, shape=shape, dtype=dtype)


def typed(body):
    return InferType()(relay.IRModule.from_expr(body))


def partitioned(mod, targets=("npu", "dsp"), merge=True, **options):
    cut = AnnotateTarget(list(targets))(mod)
    return PartitionGraph(**options)(MergeCompilerRegions()(cut) if merge else cut)


def regions(mod):
    return {v.name_hint: f for v, f in mod.functions.items() if "Compiler" in f.attrs}


def assert_same_numbers(mod, cut, ints=()):
    inputs = []
    for k, p in enumerate(mod["main"].params):
        ty = p.checked_type
        inputs.append(np.random.default_rng(k).uniform(-1, 1, ty.shape).astype(ty.dtype))
    want, got = evaluate(mod, inputs), evaluate(cut, inputs)
    for a, b in zip(*(v if isinstance(v, list) else [v] for v in (want, got)), strict=True):
        np.testing.assert_array_equal(a, b)


def annotations(mod):
    return [
        ("begin" if is_begin(n) else "end", compiler_of(n)) for n in post_order(mod["main"]) if is_begin(n) or is_end(n)
    ]


def test_each_operator_gets_begins_and_an_end_of_its_target():
    x, y = var("x"), var("y")
    mod = AnnotateTarget("npu")(typed(op.exp(op.add(x, y))))
    npu = [("begin", "npu"), ("begin", "npu"), ("end", "npu")]
    assert annotations(mod) == [*npu, ("begin", "default"), ("end", "default")]


def test_the_first_target_that_takes_an_operator_gets_it():
    x, y = var("x"), var("y")
    for targets in (["npu", "dsp"], ["dsp", "npu"]):
        cut = partitioned(typed(op.add(x, y)), targets)
        assert [f.attrs["Compiler"] for f in regions(cut).values()] == [targets[0]]


def test_two_runs_with_one_target_equal_one_run_with_both():
    x, y = var("x"), var("y")
    mod = typed(op.tanh(op.exp(op.sigmoid(op.add(op.abs(x), y)))))
    twice = AnnotateTarget(["dsp"])(AnnotateTarget(["npu"])(mod))
    once = AnnotateTarget(["npu", "dsp"])(mod)
    assert relay.structural.structural_equal(twice, once)


def test_a_predicate_sees_the_types_of_the_call():
    get_op("abs").set_attr("target.npu", lambda call: call.args[0].checked_type.dtype == "float32")
    assert regions(partitioned(typed(op.abs(var("x")))))
    assert not regions(partitioned(typed(op.abs(var("x", dtype="int32")))))


def test_a_composite_goes_to_the_target_its_name_begins_with():
    a, x = var("a"), var("x")
    for name, taken in (("npu.thing", 1), ("npux.thing", 0), ("npu", 0)):
        func = Function([a], op.sqrt(op.abs(a)), attrs={"Composite": name, "PartitionedFromPattern": "abs_sqrt_"})
        cut = partitioned(typed(Call(func, [x])))
        assert len(regions(cut)) == taken
        assert_same_numbers(typed(Call(func, [x])), cut)


def test_tuples_go_with_their_fields_or_stay_alone():
    x, y = var("x"), var("y")
    pair = op.concatenate(Tuple([op.abs(x), op.negative(y)]), 0)
    mod = typed(pair)
    whole = AnnotateTarget(["npu"])(mod)
    apart = AnnotateTarget(["npu"], include_non_call_ops=False)(mod)
    tuple_of = {m: next(n for n in post_order(m["main"]) if isinstance(n, Tuple)) for m in (whole, apart)}
    assert all(is_begin(f) for f in tuple_of[whole].fields)
    assert all(is_end(f) for f in tuple_of[apart].fields)
    for annotated in (whole, apart):
        assert_same_numbers(mod, PartitionGraph()(MergeCompilerRegions()(annotated)))


def test_a_constant_in_a_tuple_goes_with_the_fields_that_are_computed():
    x, token = var("x"), Constant(np.ones((1, 3), "float32"))
    mod = typed(op.abs(op.concatenate(Tuple([token, op.add(x, x)]), 0)))
    get_op("concatenate").set_attr("target.npu", lambda call: True)
    try:
        cut = partitioned(mod, targets=("npu",))
    finally:
        get_op("concatenate").reset_attr("target.npu")
    assert len(regions(cut)) == 1
    assert_same_numbers(mod, cut)


def test_branches_and_lets_are_cut_inside():
    c, x, y, v = relay.var("c", shape=(), dtype="bool"), var("x"), var("y"), var("v")
    body = Let(v, op.abs(op.abs(x)), If(c, op.negative(op.abs(v)), op.add(v, y)))
    mod = typed(Function([c, x, y], body))
    cut = partitioned(mod, ["npu"])
    assert len(regions(cut)) == 3
    for flag in (True, False):
        inputs = [np.array(flag), np.full((2, 3), -1.5, "float32"), np.ones((2, 3), "float32")]
        np.testing.assert_array_equal(evaluate(mod, inputs), evaluate(cut, inputs))


def test_a_loop_written_as_recursion_is_cut_inside():
    i, x = relay.var("i", shape=(), dtype="int32"), var("x")
    tensor = relay.TensorType((2, 3))
    loop = Var("loop", relay.FuncType([relay.TensorType((), "int32"), tensor], tensor))
    again = Call(loop, [op.subtract(i, relay.const(1)), op.abs(op.negative(x))])
    step = Function([i, x], If(op.greater(i, relay.const(0)), again, x), ret_type=tensor)
    n, start = relay.var("n", shape=(), dtype="int32"), var("start")
    mod = typed(Function([n, start], Let(loop, step, Call(loop, [n, start]))))
    cut = partitioned(mod, ["npu"])
    assert len(regions(cut)) == 1
    inputs = [np.array(3, "int32"), np.full((2, 3), -2.0, "float32")]
    np.testing.assert_array_equal(evaluate(mod, inputs), evaluate(cut, inputs))


def test_a_diamond_across_targets_is_not_merged_into_a_cycle():
    x = var("x")
    top = op.abs(x)
    mod = typed(op.add(op.exp(top), top))
    cut = partitioned(mod)
    assert len(regions(cut)) == 3
    assert_same_numbers(mod, cut)


def test_a_fan_out_within_one_target_is_one_region():
    x = var("x")
    top = op.abs(x)
    cut = partitioned(typed(op.add(op.negative(top), op.abs(top))), ["npu"])
    assert len(regions(cut)) == 1


def test_siblings_that_share_only_an_input_stay_apart():
    x = var("x")
    mod = typed(op.maximum(op.abs(x), op.negative(x)))
    cut = partitioned(mod, ["npu"])
    assert len(regions(cut)) == 2
    assert_same_numbers(mod, cut)


def naive_merge(func):
    """The greedy rule by brute force: parents first, join what no other path connects."""
    graph = check_regions(func, "test")
    parents = [set(p) for p in graph.parents]
    owner = list(range(len(parents)))

    def above(unit):
        return {owner[p] for u in range(len(parents)) if owner[u] == unit for p in parents[u]} - {unit}

    def reaches(source, sink):
        seen, pending = set(), [sink]
        while pending:
            for p in above(pending.pop()):
                if p not in seen:
                    seen.add(p)
                    pending.append(p)
        return source in seen

    for unit in graph.order()[0]:
        mine = graph.region[unit]
        for parent in list(dict.fromkeys(owner[p] for p in graph.parents[unit])):
            other = graph.region[parent]
            if mine is None or other is None or mine.target != other.target or parent not in above(owner[unit]):
                continue
            if not any(reaches(parent, p) for p in above(owner[unit]) - {parent}):
                gone, keep = parent, owner[unit]
                owner = [keep if o == gone else o for o in owner]
    calls = [n for n in graph.nodes if isinstance(n, Call) and not is_begin(n) and not is_end(n)]
    return frozenset(
        frozenset(k for k, c in enumerate(calls) if owner[graph.unit_of[c]] == o)
        for o in {owner[graph.unit_of[c]] for c in calls}
    )


@pytest.mark.parametrize("seed", range(40))
def test_merging_equals_the_greedy_rule_by_brute_force(seed):
    rng = random.Random(seed)
    values = [var("x"), var("y")]
    for _ in range(18):
        pick = [rng.choice(values[-5:]), rng.choice(values)]
        values.append(op.abs(pick[0]) if rng.random() < 0.4 else op.add(*pick))
    mod = typed(relay.Function(values[:2], values[-1]))
    choice = {}
    marked = annotate_function(mod["main"], lambda call: choice.setdefault(call, rng.choice("AB")))
    merged = check_regions(merge_regions(marked), "test")
    calls = [n for n in merged.nodes if isinstance(n, Call) and not is_begin(n) and not is_end(n)]
    found = frozenset(
        frozenset(k for k, _ in group)
        for _, group in itertools.groupby(
            sorted(enumerate(calls), key=lambda p: (merged.unit_of[p[1]], p[0])), key=lambda p: merged.unit_of[p[1]]
        )
    )
    assert found == naive_merge(marked)


def test_names_parameters_and_attributes_are_relays():
    x, y = var("x"), var("y")
    cut = partitioned(typed(op.abs(op.add(x, y))), ["npu"])
    ((name, func),) = regions(cut).items()
    assert name == "tvmgen_default_npu_main_0"
    assert dict(func.attrs) == {
        "Primitive": 1,
        "Inline": 1,
        "Compiler": "npu",
        "global_symbol": "tvmgen_default_npu_main_0",
    }
    assert [p.name_hint for p in func.params] == ["npu_0_i0", "npu_0_i1"]


def test_the_module_name_is_part_of_the_symbol_and_is_made_legal():
    mod = typed(op.abs(var("x")))
    assert list(regions(partitioned(mod, mod_name="my-net"))) == ["tvmgen_my_net_npu_main_0"]
    assert list(regions(partitioned(mod, mod_name=""))) == ["tvmgen_npu_main_0"]
    assert list(regions(partitioned(mod, mod_name=None))) == ["tvmgen_npu_main_0"]


def test_an_input_used_twice_is_one_parameter():
    x = var("x")
    (func,) = regions(partitioned(typed(op.add(op.abs(x), x)), ["npu"])).values()
    assert len(func.params) == 1


def test_several_outputs_are_a_tuple_and_equal_ones_are_one():
    x, y = var("x"), var("y")
    top = op.add(x, y)
    low = op.abs(top)
    mod = typed(Tuple([op.exp(top), op.exp(low), op.tanh(low)]))
    cut = partitioned(mod, ["npu"])
    (func,) = regions(cut).values()
    assert isinstance(func.body, Tuple) and len(func.body) == 2
    assert {n.index for n in post_order(cut["main"]) if isinstance(n, TupleGetItem)} == {0, 1}
    assert_same_numbers(mod, cut)


def test_a_tuple_that_a_region_returns_is_made_outside_nested_or_not():
    x, y = var("x"), var("y")
    for body in (Tuple([op.abs(x), op.negative(x)]), Tuple([Tuple([op.abs(x), y]), op.negative(op.abs(y))])):
        mod = typed(Function([x, y], body))
        cut = partitioned(mod, ["npu"])
        assert isinstance(cut["main"].body, Tuple)
        inputs = [np.full((2, 3), -1.0, "float32"), np.full((2, 3), 2.0, "float32")]
        assert np.array_equal(evaluate(mod, inputs)[1], evaluate(cut, inputs)[1])


@pytest.mark.parametrize("bind", [True, False])
def test_constants_are_bound_or_passed(bind):
    x = var("x")
    weight = relay.const(np.arange(6, dtype="float32").reshape(2, 3))
    mod = typed(op.abs(op.add(x, weight)))
    cut = partitioned(mod, ["npu"], bind_constants=bind)
    (func,) = regions(cut).values()
    assert len(func.params) == (1 if bind else 2)
    assert any(isinstance(n, Constant) for n in post_order(func)) == bind
    assert_same_numbers(mod, cut)


def test_default_annotations_leave_no_function():
    cut = partitioned(typed(op.sqrt(op.sqrt(var("x")))))
    assert list(cut.functions) == [cut.get_global_var("main")]
    assert not annotations(cut)


def test_a_vendor_may_optimise_a_region():
    name = "relay.ext.npu.optimize"

    @register_func(name)
    def twice(mod):
        func = mod["main"]
        return relay.IRModule({"main": relay.Function(func.params, op.negative(func.body))})

    try:
        cut = partitioned(typed(op.abs(var("x"))), ["npu"])
        (func,) = regions(cut).values()
        assert func.body.op.name == "negative" and func.attrs["Compiler"] == "npu"
        GLOBAL_FUNCTIONS.register(name, lambda mod: None, override=True)
        with pytest.raises(PartitionError, match="must return a module with a function main"):
            partitioned(typed(op.abs(var("x"))), ["npu"])
    finally:
        GLOBAL_FUNCTIONS.unregister(name)


def test_a_region_carries_the_onnx_names_of_its_operators():
    x = var("x")
    inner = op.abs(x)
    inner.span = relay.Span.named("Abs_1")
    outer = op.negative(inner)
    outer.span = relay.Span.named("Neg_2")
    (func,) = regions(partitioned(typed(outer), ["npu"])).values()
    assert str(func.span) == "Abs_1 + Neg_2"


def test_annotations_by_hand_that_do_not_fit_are_refused():
    x, y = var("x"), var("y")
    with pytest.raises(PartitionError, match="Arg regions are inconsistent"):
        AnnotatedRegionSet(op.add(compiler_begin(x, "npu"), y))
    with pytest.raises(PartitionError, match="Cannot find the corresponding region for end annotation"):
        AnnotatedRegionSet(compiler_end(op.abs(x), "npu"))


def test_a_region_that_a_way_leaves_and_enters_again_is_refused():
    x = var("x")
    inner = op.abs(compiler_begin(x, "npu"))
    outside = op.exp(compiler_end(inner, "npu"))
    body = compiler_end(op.add(inner, compiler_begin(outside, "npu")), "npu")
    with pytest.raises(InternalError, match="region 0 of npu is not convex"):
        check_regions(Function([x], body), "Test")


def test_region_sets_answer_as_relays_do():
    x, y = var("x"), var("y")
    body = compiler_end(op.add(compiler_begin(x, "npu"), compiler_begin(y, "npu")), "npu")
    found = AnnotatedRegionSet(body)
    (region,) = found
    assert found.get_region(body.args[0]) is region and found.get_region(x) is None
    assert (region.target, len(region.args), region.rets, len(region.nodes)) == ("npu", 2, [body], 4)


def test_the_passes_find_an_installed_backend_in_a_fresh_process():
    code = (
        "from byoc import relay\n"
        "x = relay.var('x', shape=(2,))\n"
        "mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))))\n"
        "for name in ('AnnotateTarget', 'MergeCompilerRegions', 'PartitionGraph'):\n"
        "    make = getattr(relay.transform, name)\n"
        "    mod = (make('json') if name == 'AnnotateTarget' else make())(mod)\n"
        "print([var.name_hint for var in mod.functions])\n"
        "print(len(relay.op.contrib.get_pattern_table('opencl')) > 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["['main', 'tvmgen_default_json_main_0']", "True"], done.stderr


def test_predicates_see_the_types_of_calls_in_a_module_without_types():
    seen = []
    get_op("tanh").set_attr("target.typed_test", lambda call: seen.append(call.checked_type) or True)
    try:
        x = relay.var("x", shape=(2, 3))
        step = AnnotateTarget("typed_test")
        after = step(relay.IRModule.from_expr(relay.Function([x], relay.tanh(x))))
    finally:
        get_op("tanh").reset_attr("target.typed_test")
    assert seen == [relay.TensorType((2, 3))]
    assert after["main"].body.checked_type == relay.TensorType((2, 3))
    first = step.passes[0].info
    assert (first.required, step.info.name, len(step.passes)) == (("InferType",), "AnnotateTarget", 2)


def test_a_device_that_constrains_nothing_is_no_device():
    x = relay.var("x", shape=(2,))
    device = Device("cpu")
    opened = relay.annotation.on_device(x, device, constrain_result=False, constrain_body=False)
    assert opened.attrs.virtual_device.device_type_int == -1
    assert relay.annotation.on_device(x, device).attrs.virtual_device.device_type_int == 1
