"""Analyses of programs: forms, features, kinds, type variables, coverage of matches, counts, call graphs."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.errors import TypeInferenceError, UserError
from byoc.relay import analysis
from byoc.relay.analysis import Feature
from byoc.relay.std.prelude import Prelude

UNIT = relay.TupleType([])
KIND = relay.TypeKind


def kinded(*kinds: KIND) -> list[relay.TypeVar]:
    return [relay.TypeVar(f"t{i}", kind) for i, kind in enumerate(kinds)]


# well formed --------------------------------------------------------------------------------------------------------


def test_a_variable_may_be_bound_once_and_used_inside_alone() -> None:
    x, one = relay.Var("x"), relay.const(1)
    let = relay.Let(x, one, x)
    assert analysis.well_formed(let) and analysis.well_formed(relay.Tuple([let, let]))
    assert not analysis.well_formed(relay.Let(x, one, relay.Let(x, one, x)))
    assert not analysis.well_formed(relay.Tuple([let, relay.Let(x, one, x)]))
    assert not analysis.well_formed(relay.Tuple([let, x]))
    assert not analysis.well_formed(relay.Tuple([x, let]))
    assert not analysis.well_formed(relay.Function([x, x], x))
    assert analysis.well_formed(relay.Function([x], x)) and analysis.well_formed(relay.TupleGetItem(x, 2))
    assert analysis.well_formed(Prelude().mod)


def test_each_clause_binds_its_own_variables() -> None:
    _, some, none = Prelude().mod.get_type("Option")
    x = relay.Var("x")
    fits, rest = relay.PatternConstructor(some, [relay.PatternVar(x)]), relay.Clause(relay.PatternVar(x), x)
    assert analysis.well_formed(relay.Match(none(), [rest]))
    assert not analysis.well_formed(relay.Match(none(), [relay.Clause(fits, x), rest]))


def test_a_long_chain_of_lets_is_checked() -> None:
    body: relay.Expr = relay.const(0)
    for i in range(50_000):
        body = relay.Let(relay.Var(f"v{i}"), relay.const(1), body)
    assert analysis.well_formed(body)


def test_constants_are_also_tuples_of_constants() -> None:
    one = relay.const(1)
    assert analysis.check_constant(one) and analysis.check_constant(relay.Tuple([one, relay.Tuple([one])]))
    assert not analysis.check_constant(relay.add(one, one)) and not analysis.check_constant(relay.var("x"))


def test_blocks_share_what_a_let_above_them_binds() -> None:
    c, x = relay.var("c", "bool"), relay.var("x", "float32")
    shared = relay.exp(x)
    both = relay.If(c, relay.add(shared, x), relay.add(x, shared))
    with pytest.raises(TypeInferenceError, match="a Call that several scopes use should be bound by a let"):
        analysis.check_basic_block_normal_form(relay.Function([c, x], both))
    v = relay.var("v", "float32")
    bound = relay.Let(v, relay.exp(x), relay.If(c, relay.add(v, x), relay.add(x, v)))
    assert analysis.check_basic_block_normal_form(relay.Function([c, x], bound)) is True
    assert analysis.check_basic_block_normal_form(relay.add(shared, shared)) is True


# features -----------------------------------------------------------------------------------------------------------


def test_features_name_the_classes_of_nodes() -> None:
    x = relay.var("x", "float32")
    func = relay.Function([x], relay.Tuple([relay.add(x, relay.const(1.0)), relay.RefRead(relay.RefCreate(x))]))
    assert analysis.detect_feature(func) == {
        Feature.fVar,
        Feature.fFunction,
        Feature.fTuple,
        Feature.fOp,
        Feature.fCall,
        Feature.fConstant,
        Feature.fRefCreate,
        Feature.fRefRead,
    }
    mod = relay.IRModule.from_expr(func)
    assert analysis.detect_feature(mod) == analysis.detect_feature(func)
    assert Feature.fIf in analysis.detect_feature(mod, relay.If(relay.const(True), x, x))


def test_sharing_and_recursion_are_features() -> None:
    x, f = relay.var("x", "float32"), relay.var("f")
    e = relay.exp(x)
    assert Feature.fGraph in analysis.detect_feature(relay.add(e, e))
    assert Feature.fGraph not in analysis.detect_feature(relay.add(x, x))
    loop = relay.Let(f, relay.Function([x], relay.Call(f, [x])), f)
    assert Feature.fLetRec in analysis.detect_feature(loop)
    inside = relay.Function([x], relay.If(relay.const(True), x, x), attrs={"Primitive": 1})
    assert Feature.fIf not in analysis.detect_feature(inside)


# kinds --------------------------------------------------------------------------------------------------------------


def test_every_type_has_a_kind() -> None:
    ty, shape, constraint = kinded(KIND.Type, KIND.Shape, KIND.Constraint)
    relation = relay.TypeRelation(None, [ty, UNIT], 1)
    assert [analysis.check_kind(t) for t in (ty, shape, constraint)] == [KIND.Type, KIND.Shape, KIND.Constraint]
    assert analysis.check_kind(relay.GlobalTypeVar("g")) == KIND.AdtHandle
    assert analysis.check_kind(relay.IncompleteType(KIND.ShapeVar)) == KIND.ShapeVar
    assert analysis.check_kind(relation) == KIND.Constraint
    for whole in (
        relay.TensorType([2]),
        relay.TupleType([ty, UNIT]),
        relay.RefType(ty),
        relay.FuncType([ty], UNIT, [ty], [relation, constraint]),
    ):
        assert analysis.check_kind(whole) == KIND.Type


def test_parts_of_another_kind_are_refused() -> None:
    shape, base = kinded(KIND.Shape, KIND.BaseType)
    bad = relay.TupleType([shape])
    for whole in (
        bad,
        relay.RefType(base),
        relay.FuncType([shape], UNIT),
        relay.FuncType([], shape),
        relay.FuncType([bad], UNIT),
        relay.FuncType([], UNIT, [], [relay.TypeRelation(None, [shape], 1)]),
        relay.TypeRelation(None, [base], 1),
        relay.TypeCall(relay.GlobalTypeVar("g", KIND.Type), []),
        relay.TypeCall(relay.GlobalTypeVar("g"), [shape]),
        relay.TypeCall(UNIT, []),
    ):
        with pytest.raises(TypeInferenceError):
            analysis.check_kind(whole)


def test_data_types_are_applied_to_as_many_types_as_they_have_parameters() -> None:
    mod, header, a = relay.IRModule(), relay.GlobalTypeVar("g"), relay.TypeVar("a")
    mod[header] = relay.TypeData(header, [a], [])
    assert analysis.check_kind(relay.TypeCall(header, [UNIT]), mod) == KIND.Type
    assert analysis.check_kind(mod[header], mod) == KIND.TypeData
    with pytest.raises(TypeInferenceError, match="takes 1 types, got 0"):
        analysis.check_kind(relay.TypeCall(header, []), mod)
    with pytest.raises(TypeInferenceError, match="no data type 'other'"):
        analysis.check_kind(relay.TypeCall(relay.GlobalTypeVar("other"), []), mod)


# variables of types -------------------------------------------------------------------------------------------------


def test_type_variables_are_free_or_bound() -> None:
    a, b, c = (relay.TypeVar(n) for n in "abc")
    x, y = relay.Var("x", a), relay.Var("y", relay.TupleType([b, relay.FuncType([c], c, [c])]))
    func = relay.Function([x, y], relay.Tuple([x, y]), None, [a])
    assert analysis.all_type_vars(func) == [a, b, c]
    assert analysis.bound_type_vars(func) == [a, c] and analysis.free_type_vars(func) == [b]
    assert analysis.free_type_vars(relay.FuncType([a, b], b, [b])) == [a]
    call = relay.Call(relay.GlobalVar("f"), [], type_args=[b])
    assert analysis.free_type_vars(call) == [b]


def test_the_dtypes_of_a_typed_program() -> None:
    x = relay.var("x", shape=(2,))
    func = relay.analysis.infer_function(relay.Function([x], relay.cast(x, "int8")))
    assert analysis.all_dtypes(func) == {"float32", "int8"}


# coverage of matches ------------------------------------------------------------------------------------------------

MOD = Prelude().mod
_, CONS, NIL = MOD.get_type("List")
WILD = relay.PatternWildcard


def cons(tail: relay.Pattern, head: relay.Pattern | None = None) -> relay.Pattern:
    return relay.PatternConstructor(CONS, [head or WILD(), tail])


def nil() -> relay.Pattern:
    return relay.PatternConstructor(NIL, [])


def lengths_missed(*patterns: relay.Pattern) -> set[str]:
    """How long the lists are that the patterns miss: ``2`` or, for all from there on, ``2+``."""
    v = relay.Var("v")
    found = set()
    for case in analysis.unmatched_cases(relay.Match(v, [relay.Clause(p, v) for p in patterns]), MOD):
        length = 0
        while isinstance(case, relay.PatternConstructor) and case.constructor is CONS:
            length, case = length + 1, case.patterns[1]
        found.add(f"{length}+" if isinstance(case, WILD) else str(length))
    return found


def test_the_values_that_a_match_misses() -> None:
    assert lengths_missed(WILD()) == lengths_missed(relay.PatternVar(relay.Var("x"))) == set()
    assert lengths_missed() == {"0+"}
    assert lengths_missed(nil()) == {"1+"} and lengths_missed(cons(WILD())) == {"0"}
    assert lengths_missed(cons(cons(cons(WILD())))) == {"0", "1", "2"}
    assert lengths_missed(nil(), cons(cons(nil())), cons(cons(cons(cons(WILD()))))) == {"1", "3"}
    assert lengths_missed(nil(), cons(nil()), cons(cons(WILD()))) == set()
    assert lengths_missed(cons(cons(WILD())), WILD()) == set()


def test_the_tuples_that_a_match_misses() -> None:
    v = relay.Var("v")
    match = relay.Match(
        v, [relay.Clause(relay.PatternTuple([nil(), WILD()]), v), relay.Clause(relay.PatternTuple([WILD(), nil()]), v)]
    )
    (missed,) = analysis.unmatched_cases(match, MOD)
    assert isinstance(missed, relay.PatternTuple)
    assert [p.constructor for p in missed.patterns] == [CONS, CONS]
    with pytest.raises(UserError, match="pass the module that defines it"):
        analysis.unmatched_cases(match)


# counts -------------------------------------------------------------------------------------------------------------


def typed(params: list[relay.Var], body: relay.Expr) -> relay.Function:
    return relay.transform.InferType()(relay.IRModule.from_expr(relay.Function(params, body)))["main"]


def test_multiplications_are_counted_from_shapes() -> None:
    x, w = relay.var("x", shape=(1, 4, 10, 12)), relay.var("w", shape=(6, 2, 3, 5))
    conv = relay.nn.conv2d(x, w, channels=6, kernel_size=(3, 5), groups=2)
    assert analysis.get_total_mac_number(typed([x, w], conv)) == (6 * 8 * 8) * 2 * (3 * 5)
    flat, dense = relay.var("d", shape=(7, 11)), relay.var("v", shape=(13, 11))
    total = relay.add(relay.sum(conv), relay.sum(relay.nn.dense(flat, dense)))
    assert analysis.get_total_mac_number(typed([x, w, flat, dense], total)) == 6 * 8 * 8 * 30 + 7 * 11 * 13
    a, b = relay.var("a", shape=(2, 3, 4)), relay.var("b", shape=(2, 5, 4))
    assert analysis.get_total_mac_number(typed([a, b], relay.nn.batch_matmul(a, b))) == 2 * 3 * 4 * 5


def test_a_blocked_layout_counts_all_its_channels() -> None:
    x = relay.var("x", shape=(1, 8, 8, 6))
    w = relay.var("w", shape=(3, 3, 6, 4))
    conv = relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO")
    assert analysis.get_total_mac_number(typed([x, w], conv)) == (6 * 6 * 4) * 6 * 9


def test_operators_and_layers_are_counted() -> None:
    x = relay.var("x", shape=(2, 2))
    left, right = relay.nn.dense(relay.nn.dense(x, x), x), relay.nn.dense(x, x)
    func = relay.Function([x], relay.nn.relu(relay.add(left, right)))
    mod = relay.IRModule.from_expr(func)
    assert analysis.list_op_freqs(mod) == {"nn.dense": 3, "add": 1, "nn.relu": 1}
    assert analysis.count_layers(func, ["nn.dense"]) == analysis.count_layers(mod, valid_ops=["nn.dense"]) == 2
    assert analysis.count_layers(func, ["nn.dense", "nn.relu", "nn.conv2d"]) == 3


# extraction ---------------------------------------------------------------------------------------------------------


def test_fused_functions_are_taken_out_once_each() -> None:
    x = relay.var("x", shape=(2, 3))
    y = relay.nn.dense(relay.exp(relay.tanh(x)), relay.const(np.ones((3, 3), "float32")))
    mod = relay.transform.FuseOps(2)(relay.transform.InferType()(relay.IRModule.from_expr(relay.exp(relay.tanh(y)))))
    found = analysis.extract_fused_functions(mod)
    assert len(found) == 2
    assert all(func.attrs["Primitive"] for func in found.values())
    assert all(isinstance(name, relay.GlobalVar) for name in found)


def test_a_numbered_expression_is_taken_out_with_what_it_needs() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    mod = relay.IRModule.from_expr(relay.Function([x, y], relay.add(relay.exp(x), relay.tanh(y))))
    assert "%1 = tanh(%y)" in mod.astext()
    part = analysis.extract_intermdeiate_expr(mod, 1)
    relay.assert_structural_equal(part["main"], relay.Function([y], relay.tanh(y)), map_free_vars=True)
    assert analysis.extract_intermediate_expr(mod, 2)["main"].body.op.name == "add"
    with pytest.raises(UserError, match="main has the numbers %0 to %2, got 3"):
        analysis.extract_intermediate_expr(mod, 3)


def test_weights_are_found_by_their_names() -> None:
    x, w, v = (relay.var(n, shape=(4, 4)) for n in ("x", "weight", "direct"))
    func = relay.Function([x, w, v], relay.nn.dense(relay.nn.dense(x, relay.transpose(w)), v))
    assert analysis.search_fc_transpose(func) == ["weight"]
    assert analysis.search_dense_op_weight(func) == ["direct"]


# call graphs --------------------------------------------------------------------------------------------------------


def test_a_call_graph_counts_references() -> None:
    mod = relay.IRModule()
    g0, g1 = relay.GlobalVar("g0"), relay.GlobalVar("g1")
    x, i, a = (relay.var(n, "int32") for n in "xia")
    mod[g0] = relay.Function([x], x)
    step = relay.Call(g1, [relay.subtract(i, relay.const(1))])
    body = relay.If(relay.equal(i, relay.const(0)), i, relay.add(step, relay.Call(g0, [i])))
    mod[g1] = relay.Function([i], body, relay.TensorType((), "int32"))
    mod["main"] = relay.Function([a], relay.multiply(relay.Call(g0, [a]), relay.Call(g1, [a])))
    graph = analysis.CallGraph(mod)
    assert graph.module is mod
    assert [graph.ref_count(n) for n in ("g0", g1, "main")] == [2, 2, 0]
    assert [graph.global_call_count(n) for n in (g0, "g1", "main")] == [0, 2, 2]
    assert [graph.is_recursive(n) for n in (g0, g1, "main")] == [False, True, False]
    assert "#refs = 0" in str(graph.print_var("main")) and '"g1", #refs = 2' in str(graph)
    with pytest.raises(UserError, match="no function 'g9'"):
        graph.ref_count("g9")
