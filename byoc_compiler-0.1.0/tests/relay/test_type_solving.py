"""Type inference by unification: what the program does not say is found, or refused in one sentence."""

import pytest

from byoc import relay
from byoc.errors import TypeInferenceError
from byoc.relay import transform

INT = relay.scalar_type("int32")
F32 = relay.scalar_type("float32")


def infer(expr, mod=None):
    made = relay.IRModule() if mod is None else mod
    made["main"] = expr
    return transform.InferType()(made)["main"]


def argument_types(call):
    return [arg.checked_type for arg in infer(call).body.args]


X4 = relay.var("x", shape=(2, 8, 9, 9))


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (lambda w: relay.nn.conv2d(X4, w, channels=4, kernel_size=(3, 5)), [(4, 8, 3, 5)]),
        (lambda w: relay.nn.conv2d(X4, w, channels=4, kernel_size=3, groups=2), [(4, 4, 3, 3)]),
        (lambda w: relay.nn.conv2d(X4, w, channels=16, kernel_size=3, groups=8), [(8, 2, 3, 3)]),
        (lambda w: relay.nn.conv2d(X4, w, channels=4, kernel_size=(1, 1), kernel_layout="HWIO"), [(1, 1, 8, 4)]),
        (lambda w: relay.nn.conv2d_transpose(X4, w, channels=6, kernel_size=(3, 3), groups=2), [(8, 3, 3, 3)]),
        (lambda w: relay.nn.dense(relay.nn.batch_flatten(X4), w, units=5), [(5, 648)]),
        (lambda w: relay.nn.matmul(relay.var("a", shape=(3, 7)), w, units=5), [(7, 5)]),
        (lambda w: relay.nn.bias_add(X4, w), [(8,)]),
        (lambda w: relay.nn.prelu(X4, w, axis=-1), [(9,)]),
    ],
)
def test_a_weight_gets_the_shape_that_its_operator_needs(build, shapes):
    assert [tuple(ty.shape) for ty in argument_types(build(relay.var("w")))[1:]] == shapes


def test_the_vectors_of_batch_norm_get_the_size_of_the_channels():
    vectors = [relay.var(name) for name in ("gamma", "beta", "mean", "var")]
    call = infer(relay.nn.batch_norm(X4, *vectors)[0]).body.tuple_value
    assert [tuple(arg.checked_type.shape) for arg in call.args[1:]] == [(8,)] * 4


def test_a_whole_network_with_untyped_weights_is_typed_and_its_parameters_are_annotated():
    net = relay.var("data", shape=(1, 3, 16, 16))
    for i, channels in enumerate((8, 16, 32)):
        net = relay.nn.conv2d(net, relay.var(f"w{i}"), channels=channels, kernel_size=(3, 3), padding=(1, 1))
        net = relay.nn.relu(relay.nn.bias_add(net, relay.var(f"b{i}")))
    func = infer(relay.nn.dense(relay.nn.batch_flatten(net), relay.var("w"), units=10))
    shapes = {p.name_hint: tuple(p.type_annotation.shape) for p in func.params}
    assert shapes["w2"] == (32, 16, 3, 3) and shapes["b1"] == (16,) and shapes["w"] == (10, 32 * 256)
    assert func.ret_type == relay.TensorType((1, 10))


def test_an_untyped_variable_that_nothing_types_is_named():
    with pytest.raises(TypeInferenceError, match=r"variable %b has no type.*annotate it"):
        infer(relay.add(relay.var("a", shape=(3,)), relay.var("b")))


def test_a_local_recursion_without_declared_result_is_typed():
    f, n = relay.Var("f"), relay.Var("n")
    step = relay.multiply(relay.const(2.0), f(relay.subtract(n, relay.const(1))))
    body = relay.If(relay.equal(n, relay.const(0)), relay.const(1.0), step)
    func = infer(relay.Let(f, relay.Function([n], body), f(relay.const(3))))
    assert func.checked_type == relay.FuncType([], F32)
    assert func.body.value.params[0].type_annotation == INT


def test_global_recursion_between_two_functions_is_typed():
    mod = relay.IRModule()
    even, odd = relay.GlobalVar("even"), relay.GlobalVar("odd")
    for here, other, at_zero in ((even, odd, True), (odd, even, False)):
        n = relay.var("n", dtype="int32", shape=())
        less = relay.subtract(n, relay.const(1))
        mod[here] = relay.Function([n], relay.If(relay.equal(n, relay.const(0)), relay.const(at_zero), other(less)))
    typed = transform.InferType()(mod)
    assert typed[even].checked_type == typed[odd].checked_type == relay.FuncType([INT], relay.scalar_type("bool"))


def test_a_generic_function_is_applied_at_several_types_and_keeps_its_type_arguments():
    identity, t = relay.Var("identity"), relay.TypeVar("t")
    x = relay.Var("x", t)
    pair = relay.Tuple([identity(relay.const(1)), identity(relay.Tuple([]))])
    func = infer(relay.Let(identity, relay.Function([x], x, t, [t]), pair))
    assert func.ret_type == relay.TupleType([INT, relay.TupleType([])])
    assert [call.type_args for call in func.body.body.fields] == [(INT,), (relay.TupleType([]),)]


def test_a_function_passed_as_an_argument_gets_its_type_from_its_use():
    f, x = relay.Var("f"), relay.Var("x", INT)
    func = infer(relay.Function([x, f], relay.Call(f, [x]), F32))
    assert func.checked_type == relay.FuncType([INT, relay.FuncType([INT], F32)], F32)


def a_list():
    mod, header, a = relay.IRModule(), relay.GlobalTypeVar("List"), relay.TypeVar("a")
    nil, cons = relay.Constructor("Nil", [], header), relay.Constructor("Cons", [a, header(a)], header)
    mod[header] = relay.TypeData(header, [a], [nil, cons])
    return mod, header, nil, cons


def length(mod, header, nil, cons):
    t, head, tail = relay.TypeVar("t"), relay.Var("head"), relay.Var("tail")
    xs, name = relay.Var("xs", header(t)), relay.GlobalVar("length")
    clauses = [
        relay.Clause(relay.PatternConstructor(nil), relay.const(0)),
        relay.Clause(
            relay.PatternConstructor(cons, [relay.PatternVar(head), relay.PatternVar(tail)]),
            relay.add(relay.const(1), name(tail)),
        ),
    ]
    mod[name] = relay.Function([xs], relay.Match(xs, clauses), INT, [t])
    return name


def test_a_match_over_a_generic_list_types_what_its_patterns_bind():
    mod, header, nil, cons = a_list()
    name = length(mod, header, nil, cons)
    mod["main"] = relay.Function([], name(cons(relay.const(1.0), nil())))
    typed = transform.InferType()(mod)
    fields = typed[name].body.clauses[1].lhs.patterns
    assert [p.var.type_annotation for p in fields] == [typed[name].type_params[0], header(typed[name].type_params[0])]
    assert typed["main"].checked_type == relay.FuncType([], INT)
    assert typed["main"].body.type_args == (F32,)


def test_a_list_of_two_types_is_refused():
    mod, _, nil, cons = a_list()
    with pytest.raises(TypeInferenceError, match="argument 1 of a call.*not the same type"):
        infer(cons(relay.const(1.0), cons(relay.const(1), nil())), mod)


def test_a_constructor_of_a_type_that_the_module_lacks_is_refused():
    _, _, nil, _ = a_list()
    with pytest.raises(TypeInferenceError, match="Nil belongs to the type List, which is not in the module"):
        infer(nil())


def test_a_type_that_contains_itself_is_refused():
    f = relay.Var("f")
    with pytest.raises(TypeInferenceError, match="contain itself"):
        infer(relay.Function([f], f(f)))


def test_inference_of_what_is_typed_already_gives_the_same_function():
    mod, header, nil, cons = a_list()
    name = length(mod, header, nil, cons)
    once = transform.InferType()(mod)
    assert transform.InferType()(once)[name] is once[name]


def test_function_types_are_equal_up_to_the_names_of_their_parameters():
    a, b = relay.TypeVar("a"), relay.TypeVar("b")
    one, other = relay.FuncType([a], a, [a]), relay.FuncType([b], b, [b])
    assert one == other and hash(one) == hash(other)
    assert one != relay.FuncType([a], b, [a])
