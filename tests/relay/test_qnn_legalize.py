"""qnn.Legalize: by each operator's rule, by the target for products, without a change of what is computed."""

import numpy as np
import pytest

import byoc.relay as relay
from byoc.ir.module import IRModule
from byoc.ir.op import Op, get_op
from byoc.ir.target import Target
from byoc.relay.expr import Call
from byoc.relay.interpreter import evaluate
from byoc.relay.qnn.legalizations import RulesByTarget
from byoc.relay.qnn.op import canonicalizations, register_qnn_legalize
from byoc.relay.qnn.transform import Legalize
from byoc.relay.structure.structural import structural_equal
from byoc.relay.traverse import post_order

X86 = ["llvm -mcpu=skylake-avx512", "llvm -mcpu=cascadelake"]
ARM = "llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mattr=+v8.2a,+dotprod"
SLOW = ["llvm", "llvm -device=arm_cpu -mtriple=aarch64-linux-gnu"]
GPU = ["cuda"]


def calls(mod) -> list[Call]:
    return [n for n in post_order(mod["main"]) if isinstance(n, Call) and isinstance(n.op, Op)]


def operators(mod) -> set[str]:
    return {c.op.name for c in calls(mod)}


def typed(expr) -> IRModule:
    return relay.transform.InferType()(IRModule.from_expr(expr))


def convolution(data_dtype: str, kernel_dtype: str, vector: bool = False):
    data = relay.var("x", shape=(1, 3, 6, 6), dtype=data_dtype)
    kernel = relay.var("w", shape=(4, 3, 3, 3), dtype=kernel_dtype)
    zeros = np.array([1, 2, 3, 4], "int32") if vector else 1
    scale = np.ones(4, "float32") if vector else 1.0
    return relay.qnn.op.conv2d(
        data,
        kernel,
        relay.const(1),
        relay.const(zeros),
        relay.const(1.0),
        relay.const(scale),
        (3, 3),
        4,
        padding=(1, 1),
    )


def dense(data_dtype: str, kernel_dtype: str, vector: bool = False):
    data, kernel = relay.var("x", shape=(5, 6), dtype=data_dtype), relay.var("w", shape=(4, 6), dtype=kernel_dtype)
    zeros = np.array([1, 2, 3, 4], "int32") if vector else 1
    scale = np.ones(4, "float32") if vector else 1.0
    return relay.qnn.op.dense(data, kernel, relay.const(1), relay.const(zeros), relay.const(1.0), relay.const(scale), 4)


def legalized(mod, target: str | None):
    if target is None:
        return Legalize()(mod)
    with Target(target):
        return Legalize()(mod)


def same_integers(mod, new) -> None:
    rng = np.random.default_rng(0)
    inputs = []
    for param in mod["main"].params:
        ty = param.checked_type
        info = np.iinfo(ty.dtype)
        inputs.append(rng.integers(info.min, info.max, ty.concrete_shape, endpoint=True).astype(ty.dtype))
    np.testing.assert_array_equal(evaluate(new, inputs), evaluate(mod, inputs))


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("product", [convolution, dense])
@pytest.mark.parametrize("dtypes", [("uint8", "uint8"), ("int8", "int8"), ("uint8", "int8"), ("int8", "uint8")])
def test_products_become_what_the_target_multiplies(product, dtypes, vector: bool) -> None:
    mod = typed(product(*dtypes, vector))
    name = "qnn.conv2d" if product is convolution else "qnn.dense"
    wanted = {**dict.fromkeys(X86, ("uint8", "int8")), ARM: (dtypes[1],) * 2, **dict.fromkeys(GPU, ("int8",) * 2)}
    for target, kinds in wanted.items():
        new = legalized(mod, target)
        (call,) = [c for c in calls(new) if c.op.name == name]
        assert tuple(a.checked_type.dtype for a in call.args[:2]) == kinds
        assert structural_equal(new, mod) == (kinds == dtypes)
        same_integers(mod, new)
    for target in SLOW:
        new = legalized(mod, target)
        assert "cast" in operators(new) and not any(n.startswith("qnn.") for n in operators(new))
        assert {a.checked_type.dtype for c in calls(new) if c.op.name.startswith("nn.") for a in c.args} == {"int16"}
        same_integers(mod, new)
    assert structural_equal(legalized(mod, None), mod)


def test_a_transposed_convolution_is_made_of_differences() -> None:
    x, w = relay.var("x", shape=(1, 2, 4, 4), dtype="uint8"), relay.var("w", shape=(2, 3, 3, 3), dtype="uint8")
    mod = typed(
        relay.qnn.op.conv2d_transpose(
            x, w, relay.const(8), relay.const(3), relay.const(1.0), relay.const(1.0), channels=3, kernel_size=(3, 3)
        )
    )
    new = Legalize()(mod)
    assert operators(new) == {"cast", "subtract", "nn.conv2d_transpose"}
    same_integers(mod, new)


def test_a_rule_of_ones_own_is_asked_and_relays_legalize_does_not_see_it() -> None:
    def requantization():
        x = relay.var("x", shape=(1, 4), dtype="int8")
        return x, [relay.const(1.0), relay.const(0), relay.const(1.0), relay.const(0)]

    def add_nothing(attrs, inputs, types):
        assert [t.dtype for t in types] == ["int8", "float32", "int32", "float32", "int32", "int8"]
        return relay.qnn.op.requantize(relay.add(relay.const(0, "int8"), inputs[0]), *inputs[1:], out_dtype="int8")

    x, parameters = requantization()
    mod = typed(relay.qnn.op.requantize(x, *parameters))
    op = get_op("qnn.requantize")
    try:
        assert register_qnn_legalize("qnn.requantize", add_nothing) is add_nothing
        assert structural_equal(relay.transform.Legalize()(mod), mod)
        x, parameters = requantization()
        expected = typed(relay.qnn.op.requantize(relay.add(relay.const(0, "int8"), x), *parameters))
        assert structural_equal(Legalize()(mod), expected)
    finally:
        op.reset_attr("FTVMQnnLegalize")


def test_rules_that_make_no_expression_or_another_type_are_refused() -> None:
    x = relay.var("x", shape=(4,), dtype="int8")
    mod = typed(relay.qnn.op.requantize(x, relay.const(1.0), relay.const(0), relay.const(1.0), relay.const(0)))
    for rule, message in (
        (lambda *a: 3, "must return an expression or None, got int"),
        (lambda a, inputs, t: relay.cast(inputs[0], "int32"), "int32.* of .*int8"),
    ):
        try:
            register_qnn_legalize("qnn.requantize", rule)
            with pytest.raises(Exception, match=message):
                Legalize()(mod)
        finally:
            get_op("qnn.requantize").reset_attr("FTVMQnnLegalize")


def test_a_rule_for_a_key_wins_over_the_default() -> None:
    rules = RulesByTarget(lambda attrs, inputs, types: "default")
    rules.register(["cuda", "gpu"], lambda attrs, inputs, types: "gpu")

    @rules.register("arm_cpu")
    def arm(attrs, inputs, types):
        return "arm"

    assert rules(None, [], []) == "default"
    for target, expected in ((ARM, "arm"), ("cuda", "gpu"), ("llvm", "default")):
        with Target(target):
            assert rules(None, [], []) == expected


@pytest.mark.parametrize("in_dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("out_dtype", ["int8", "uint8"])
def test_a_table_holds_the_function_of_each_bit_pattern(in_dtype: str, out_dtype: str) -> None:
    info = np.iinfo(in_dtype)
    numbers = [relay.const(8 / (info.max - info.min)), relay.const(5), relay.const(2 / 256), relay.const(3)]
    table = canonicalizations.create_integer_lookup_table(np.sin, *numbers, in_dtype=in_dtype, out_dtype=out_dtype)
    assert table.shape == (2**info.bits,) and table.dtype == out_dtype
    data = np.random.default_rng(0).integers(info.min, info.max, 200).astype(in_dtype)
    real = np.sin(np.float32(8 / (info.max - info.min)) * (data.astype("float32") - 5))
    limits = np.iinfo(out_dtype)
    want = np.clip(np.rint(real / np.float32(2 / 256) + 3), limits.min, limits.max)
    np.testing.assert_array_equal(table[data.view(f"uint{info.bits}")], want)
    call = canonicalizations.create_integer_lookup_op(
        relay.var("x", shape=(200,), dtype=in_dtype), np.sin, *numbers, in_dtype=in_dtype, out_dtype=out_dtype
    )
    got = evaluate(call, [data])
    assert got.dtype == out_dtype
    np.testing.assert_array_equal(got, want)


def test_tables_of_what_is_no_integer_or_has_several_scales_are_refused() -> None:
    numbers = [relay.const(1.0), relay.const(0), relay.const(1.0), relay.const(0)]
    with pytest.raises(ValueError, match="Only integer dtypes allowed"):
        canonicalizations.create_integer_lookup_table(np.sin, *numbers, in_dtype="float32")
    with pytest.raises(Exception, match="one scale"):
        canonicalizations.create_integer_lookup_op(
            relay.var("x", shape=(2,), dtype="uint8"), np.sin, relay.const(np.ones(2, "float32")), *numbers[1:]
        )


def test_a_constant_expression_is_evaluated() -> None:
    assert canonicalizations.run_const_expr(relay.const(2.0) * relay.const(3.0)) == 6.0
    assert canonicalizations.run_const_expr(7) == 7
    with pytest.raises(Exception, match="main|x"):
        canonicalizations.run_const_expr(relay.var("x", shape=()))
