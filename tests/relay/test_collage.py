"""CollagePartition, text in and text out, with costs by operator."""

import math
from types import SimpleNamespace

import pytest

from byoc.annex.collage import CostEstimator, CustomCostEstimator, MockCostEstimator
from byoc.annex.collage.candidate_partition import CandidatePartition
from byoc.annex.collage.dataflow_graph import DataflowGraph
from byoc.annex.collage.index_set import index_set
from byoc.annex.collage.pruning import prune_candidates
from byoc.annex.collage.sub_graph import SubGraph
from byoc.annex.devices.compilation_config import make_compilation_config
from byoc.errors import InternalError, PartitionError, UserError
from byoc.ir.passes.transform import PassContext
from byoc.ir.registry import GLOBAL_FUNCTIONS, register_func
from byoc.ir.target import Target
from byoc.relay import assert_structural_equal, fromtext
from byoc.relay.dataflow_pattern import is_op, is_tuple, wildcard
from byoc.relay.op.contrib.register import PATTERN_TABLES, register_pattern_table
from byoc.relay.transform import CapturePostDfsIndexInSpans, CollagePartition, InferType

HOOK = "example_target_hook"
T = "Tensor[(10, 10), float32]"


@pytest.fixture(autouse=True)
def hook_table():
    """The pattern table of the compiler that the tests partition for."""
    register_pattern_table(
        HOOK,
        lambda: [
            ("relu", is_op("nn.relu")(wildcard()), lambda pre: True),
            ("add", is_op("add")(wildcard(), wildcard())),
            ("concatenate", is_op("concatenate")(wildcard()), lambda pre: True),
        ],
    )
    yield
    PATTERN_TABLES.unregister(HOOK)


def module(text):
    return InferType()(fromtext(f'#[version = "0.0.5"]\n{text}'))


def collage(text, costs, targets=("llvm", HOOK), **options):
    """The module of *text* after the pass; *options* are those of Collage without their prefix."""
    estimator = costs if isinstance(costs, CostEstimator) else MockCostEstimator(costs)
    context = PassContext(config={f"relay.collage.{key}": value for key, value in options.items()})
    with context:
        config = make_compilation_config(context, [Target(t) for t in targets])
        return CollagePartition(config, estimator)(CapturePostDfsIndexInSpans()(module(text)))


def expect(actual, text):
    assert_structural_equal(actual, module(text), map_free_vars=True)


def composite(name, op, params="%a", argument="%a"):
    typed = ", ".join(f"{p}: {T}" for p in params.split(", "))
    return f'fn ({typed}, Composite="{name}") -> {T} {{ {op}({argument}) }}'


def region(name, params, body, result=T):
    typed = ", ".join(f"{p}: {T}" for p in params.split(", "))
    return f'def @{name}({typed}, Primitive=1, Compiler="{HOOK}", global_symbol="{name}") -> {result} {{ {body} }}\n'


RELU = composite("relu", "nn.relu")
ONE_RELU = region(f"collage_{HOOK}_nn_relu", "%p", f"%0 = {RELU}; %0(%p)")


def test_an_operator_stays_where_the_host_is_cheaper():
    text = f"def @main(%x: {T}) -> {T} {{ nn.relu(%x) }}"
    expect(collage(text, {"llvm": 1, HOOK: 2}), text)


def test_an_operator_goes_to_the_cheaper_compiler_under_the_name_of_its_label():
    out = collage(f"def @main(%x: {T}) {{ nn.relu(%x) }}", {"llvm": 2, HOOK: 1})
    expect(out, ONE_RELU + f"def @main(%x: {T}) -> {T} {{ @collage_{HOOK}_nn_relu(%x) }}")


def test_of_equal_costs_the_target_that_is_named_first_is_taken():
    text = f"def @main(%x: {T}) -> {T} {{ nn.relu(%x) }}"
    expect(collage(text, {"llvm": 1, HOOK: 1}), text)


DIAMOND = f"def @main(%x: {T}) {{ %0 = nn.relu(%x); %1 = abs(%0); %2 = nn.relu(%1); add(%1, %2) }}"
ADD = composite("add", "add", "%a, %b", "%a, %b")


@pytest.mark.parametrize(("depth", "name"), [(1, f"collage_{HOOK}"), (3, f"collage_{HOOK}_nn_relu_add")])
def test_what_touches_is_one_region_measured_as_one_or_coalesced_afterwards(depth, name):
    out = collage(DIAMOND, {"llvm": 100, HOOK: 1}, byoc_max_depth=depth)
    body = f"%0 = {RELU}; %1 = %0(%p); %2 = {ADD}; %2(%p, %1)"
    main = f"def @main(%x: {T}) -> {T} {{ %0 = @collage_{HOOK}_nn_relu(%x); %1 = abs(%0); @{name}(%1) }}"
    expect(out, ONE_RELU + region(name, "%p", body) + main)


THREE = f"def @main(%x: {T}) {{ %0 = nn.relu(%x); %1 = nn.relu(%0); nn.relu(%1) }}"
ALL_IN_ONE = f"%0 = {RELU}; %1 = %0(%p); %2 = {RELU}; %3 = %2(%1); %4 = {RELU}; %4(%3)"


def test_fused_operators_of_the_host_are_cheaper_as_deep_as_the_option_allows():
    costs = {"llvm": 105, HOOK: 100}
    one = region(f"collage_{HOOK}", "%p", ALL_IN_ONE) + f"def @main(%x: {T}) -> {T} {{ @collage_{HOOK}(%x) }}"
    expect(collage(THREE, costs, tvm_max_depth=1, byoc_max_depth=1), one)
    two = f"def @main(%x: {T}) -> {T} {{ %0 = @collage_{HOOK}_nn_relu(%x); %1 = nn.relu(%0); nn.relu(%1) }}"
    expect(collage(THREE, costs, tvm_max_depth=2, byoc_max_depth=1), ONE_RELU + two)
    three = f"def @main(%x: {T}) -> {T} {{ %0 = nn.relu(%x); %1 = nn.relu(%0); nn.relu(%1) }}"
    expect(collage(THREE, costs, tvm_max_depth=3, byoc_max_depth=1), three)


def test_fused_operators_of_a_compiler_are_cheaper_as_deep_as_the_option_allows():
    costs = {"llvm": 100, HOOK: 105}
    host = f"def @main(%x: {T}) -> {T} {{ %0 = nn.relu(%x); %1 = nn.relu(%0); nn.relu(%1) }}"
    expect(collage(THREE, costs, tvm_max_depth=1, byoc_max_depth=1), host)
    two_name = f"collage_{HOOK}_nn_relu_nn_relu"
    two = region(two_name, "%p", f"%0 = {RELU}; %1 = %0(%p); %2 = {RELU}; %2(%1)")
    out = collage(THREE, costs, tvm_max_depth=1, byoc_max_depth=2)
    expect(out, two + f"def @main(%x: {T}) -> {T} {{ %0 = nn.relu(%x); @{two_name}(%0) }}")
    name = f"collage_{HOOK}_nn_relu_nn_relu_nn_relu"
    out = collage(THREE, costs, tvm_max_depth=1, byoc_max_depth=3)
    expect(out, region(name, "%p", ALL_IN_ONE) + f"def @main(%x: {T}) -> {T} {{ @{name}(%x) }}")


def test_a_coalesced_region_gives_a_tuple_and_a_tuple_argument_is_one_parameter():
    text = f"def @main(%x: {T}) {{ %0 = nn.relu(%x); %1 = nn.relu(%0); %2 = (%0, %1); concatenate(%2) }}"
    out = collage(text, {"llvm": 1000, HOOK: 1}, byoc_max_depth=5)
    pair, name, joined = f"({T}, {T})", f"collage_{HOOK}_concatenate", "Tensor[(20, 10), float32]"
    body = f"%0 = {RELU}; %1 = %0(%p); %2 = {RELU}; %3 = %2(%1); (%1, %3)"
    concat = (
        f'def @{name}(%p: {pair}, Primitive=1, Compiler="{HOOK}", global_symbol="{name}") -> {joined} '
        f'{{ %0 = fn (%a: {pair}, Composite="concatenate") -> {joined} {{ concatenate(%a) }}; %0(%p) }}\n'
    )
    main = (
        f"def @main(%x: {T}) -> {joined} {{ %0 = @collage_{HOOK}(%x); %1 = %0.0; %2 = %0.1; %3 = (%1, %2); "
        f"@{name}(%3) }}"
    )
    expect(out, region(f"collage_{HOOK}", "%p", body, pair) + concat + main)


def test_a_region_never_waits_for_what_waits_for_it():
    text = f"def @main(%x: {T}) {{ %0 = nn.relu(%x); %1 = abs(%0); add(%0, %1) }}"
    out = collage(text, {"llvm": 100, HOOK: 1}, byoc_max_depth=4)
    add = region(f"collage_{HOOK}_add", "%p, %q", f"%0 = {ADD}; %0(%p, %q)")
    main = (
        f"def @main(%x: {T}) -> {T} {{ %0 = @collage_{HOOK}_nn_relu(%x); %1 = abs(%0); @collage_{HOOK}_add(%0, %1) }}"
    )
    expect(out, ONE_RELU + add + main)


def test_equal_functions_are_measured_once_and_share_a_name():
    text = f"def @main(%x: {T}, %y: {T}) {{ %0 = nn.relu(%x); %1 = nn.relu(%y); (%0, %1) }}"
    estimator = MockCostEstimator({"llvm": 2, HOOK: 1}, max_estimates=2)  # one relu for each of the two targets
    out = collage(text, estimator)
    main = (
        f"def @main(%x: {T}, %y: {T}) -> ({T}, {T}) {{ %0 = @collage_{HOOK}_nn_relu(%x); "
        f"%1 = @collage_{HOOK}_nn_relu(%y); (%0, %1) }}"
    )
    expect(out, ONE_RELU + main)
    assert estimator.num_estimates == 2


def test_too_many_estimates_are_an_error():
    with pytest.raises(InternalError, match="at most 1 non-trivial distinct candidates"):
        collage(THREE, MockCostEstimator({"llvm": 1, HOOK: 1}, max_estimates=1))


def test_a_predicate_that_says_no_keeps_its_operator_out():
    PATTERN_TABLES.unregister(HOOK)
    register_pattern_table(HOOK, lambda: [("relu", is_op("nn.relu")(wildcard()), lambda pre: False)])
    text = f"def @main(%x: {T}) -> {T} {{ nn.relu(%x) }}"
    expect(collage(text, {"llvm": 2, HOOK: 1}), text)


def test_a_tuple_that_a_pattern_names_is_inside_the_region():
    PATTERN_TABLES.unregister(HOOK)
    pair = is_op("concatenate")(is_tuple([wildcard(), wildcard()]))
    register_pattern_table(HOOK, lambda: [("concatenate", pair)])
    out = collage(f"def @main(%x: {T}, %y: {T}) {{ %0 = (%x, %y); concatenate(%0) }}", {"llvm": 2, HOOK: 1})
    func = out[f"collage_{HOOK}_tuple_concatenate"]
    assert [str(p.checked_type) for p in func.params] == [T, T]


@pytest.mark.parametrize("style", ["NoFusion", "ArbitraryFusion", "TVMFusion"])
def test_without_fusion_regions_are_coalesced_all_the_same(style):
    out = collage(THREE, {"llvm": 100, HOOK: 1}, byoc_fusion_style=[f"{HOOK}.{style}"])
    names = [var.name_hint for var in out.functions]
    whole = {"NoFusion": f"collage_{HOOK}"}.get(style, f"collage_{HOOK}_nn_relu_nn_relu_nn_relu")
    assert names == ["main", whole]


def test_an_unknown_style_is_refused_with_those_that_are_known():
    with pytest.raises(UserError, match="NoFusion, TVMFusion, ArbitraryFusion"):
        collage(THREE, {"llvm": 1, HOOK: 1}, byoc_fusion_style=[f"{HOOK}.Sometimes"])


def test_a_compiler_without_a_pattern_table_is_refused():
    with pytest.raises(PartitionError, match="No pattern table entry was found for BYOC compiler cutlass"):
        collage(THREE, {"llvm": 1, "cutlass": 1}, targets=("llvm", "cutlass"))


def test_opaque_operators_are_covered_too():
    text = f'def @main(%x: {T}) -> Tensor[(10, 10), int32] {{ argsort(%x, axis=-1, dtype="int32") }}'
    expect(collage(text, {"llvm": 1, HOOK: 1}), text)


def test_a_custom_estimator_is_asked_for_each_distinct_candidate_and_may_refuse():
    asked = []

    @register_func("test.collage.estimate")
    def estimate(mod, target):
        asked.append((target.kind.name, len(mod.functions)))
        return math.inf if target.kind.name == HOOK else 1.0

    try:
        text = f"def @main(%x: {T}) -> {T} {{ nn.relu(%x) }}"
        expect(collage(text, CustomCostEstimator("test.collage.estimate")), text)
    finally:
        GLOBAL_FUNCTIONS.unregister("test.collage.estimate")
    assert asked == [("llvm", 1), (HOOK, 2)]


def test_an_estimator_that_is_not_registered_is_named():
    with pytest.raises(UserError, match="no global function 'test.collage.nothing'"):
        collage(THREE, CustomCostEstimator("test.collage.nothing"))


def test_a_graph_of_hundreds_of_nodes_is_searched_in_seconds():
    body = "%0 = nn.relu(%x);" + "".join(
        f"%{3 * i + 1} = nn.relu(%{3 * i}); %{3 * i + 2} = abs(%{3 * i}); "
        f"%{3 * i + 3} = add(%{3 * i + 1}, %{3 * i + 2});"
        for i in range(80)
    )
    out = collage(f"def @main(%x: {T}) {{ {body} nn.relu(%240) }}", {"llvm": 3, HOOK: 2})
    assert any(var.name_hint.startswith(f"collage_{HOOK}") for var in out.functions)


OTHER = "test_external_codegen_0"
FOUR = f"def @main(%x: {T}, %y: {T}) {{ %0 = add(%x, %y); %1 = nn.relu(%0); %2 = add(%1, %y); nn.relu(%2) }}"


def test_the_pattern_table_is_looked_up_when_a_rule_is_built(monkeypatch):
    """Whoever replaces the function in the package of vendors takes effect, though nothing is registered."""
    from byoc.relay.op import contrib

    table = [("negative", is_op("negative")(wildcard()))]
    monkeypatch.setattr(contrib, "get_pattern_table", lambda name: table if name == OTHER else None)
    out = collage(f"def @main(%x: {T}) {{ negative(%x) }}", {"llvm": 2, OTHER: 1}, ("llvm", OTHER))
    assert [var.name_hint for var in out.functions if var.name_hint != "main"] == [f"collage_{OTHER}_negative"]
    with pytest.raises(PartitionError, match=f"No pattern table entry was found for BYOC compiler {HOOK}"):
        collage(f"def @main(%x: {T}) {{ negative(%x) }}", {"llvm": 2, HOOK: 1})


def test_two_targets_that_take_all_of_four_operators_need_two_estimates():
    out = collage(FOUR, MockCostEstimator({"llvm": 2, HOOK: 1}, 2))
    regions = [f for var, f in out.functions.items() if var.name_hint != "main"]
    assert [f.attrs["Compiler"] for f in regions] == [HOOK]
    with pytest.raises(InternalError, match="at most 1 non-trivial"):
        collage(FOUR, MockCostEstimator({"llvm": 2, HOOK: 1}, 1))


def test_where_the_largest_compete_smaller_ones_are_costed_too():
    """The host's kernel of four and the compiler's of two overlap: then what is below them is looked at."""
    graph = DataflowGraph(module(FOUR)["main"])
    spec, other = (SimpleNamespace(spec_name=name) for name in ("a", "b"))

    def candidate(at, *indexes):
        return CandidatePartition("", SubGraph(graph, index_set(indexes)), at)

    whole, pair = candidate(spec, 4, 5, 6), candidate(other, 4, 5)
    first, rest = candidate(spec, 4), candidate(spec, 5, 6)
    alone, twin = candidate(spec, 7), candidate(other, 7)
    pool = [first, rest, whole, pair, alone, twin]
    assert prune_candidates([whole, first, rest, alone, twin]) == [whole, alone, twin], "nothing competes"
    assert prune_candidates(pool) == [whole, pair, alone, twin, first, rest]
    assert prune_candidates([]) == []
