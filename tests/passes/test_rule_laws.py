"""Each rule of SimplifyExpr rests on a law: wherever it applies, what it puts in a call's place computes the same."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from generated import generated
from near import holds
from pass_texts import texts

from byoc import relay
from byoc.ir.types import TensorType
from byoc.relay.analysis import free_vars, infer_module
from byoc.relay.interpreter import evaluate
from byoc.relay.transform.simplify import expr
from byoc.relay.transform.simplify.rules import LAWS
from byoc.runtime.core.ndarray import numpy_dtype

TABLES = {
    "Relay's": expr.RULES,
    "thorough": expr.THOROUGH_RULES,
    "the host's": expr.HOST_RULES,
    "behind AlterOpLayout": expr.POST_ALTER_RULES,
}
RULES = {rule for table in TABLES.values() for rules in table.values() for rule in rules}
TEXTS = [case for path, case in texts(pathlib.Path(__file__).parent / "texts") if path.stem.startswith("simplify")]
SEEDS = 80


def form(number: int, rng: np.random.Generator) -> relay.IRModule:
    """A left side of a law over a random shape: the *number*-th of FORMS."""
    shape = tuple(int(n) for n in rng.integers(2, 5, 3))
    x, y, small = (relay.var(name, shape=shape, dtype=dtype) for name, dtype in zip("xyz", KINDS, strict=True))
    body = FORMS[number](x, y, small, rng)
    return infer_module(relay.IRModule.from_expr(relay.Function(list(free_vars(body)), body)))


KINDS = ("float32", "float32", "uint8")


def number(rng, *shape):
    """A constant between 0.5 and 2."""
    return relay.const(rng.uniform(0.5, 2.0, shape).astype("float32"))


def centred(x, epsilon=1e-5):
    """x without its mean over the last axis, and the mean of its square with an epsilon."""
    part = relay.subtract(x, relay.mean(x, axis=-1, keepdims=True))
    return part, relay.add(relay.mean(relay.multiply(part, part), axis=-1, keepdims=True), relay.const(epsilon))


def last(x):
    """The size of x's last axis."""
    return x.type_annotation.concrete_shape[-1]


FORMS = (
    lambda x, y, z, rng: relay.multiply(relay.add(x, number(rng)), number(rng)),
    lambda x, y, z, rng: relay.add(relay.multiply(number(rng), x), number(rng, last(x))),
    lambda x, y, z, rng: relay.clip(z, 0, 255),
    lambda x, y, z, rng: relay.clip(relay.cast(relay.clip(x, 0.0, 9.0), "uint8"), 0, 255),
    lambda x, y, z, rng: relay.cast_like(x, z),
    lambda x, y, z, rng: relay.argmax(relay.qnn.op.dequantize(z, relay.const(0.1), relay.const(3)), axis=1),
    lambda x, y, z, rng: relay.full_like(x, relay.const(float(rng.uniform()))),
    lambda x, y, z, rng: relay.reshape_like(relay.transpose(x, (2, 0, 1)), y),
    lambda x, y, z, rng: relay.collapse_sum_like(x, relay.sum(y, axis=0, keepdims=True)),
    lambda x, y, z, rng: relay.broadcast_to_like(relay.sum(x, axis=0, keepdims=True), y),
    lambda x, y, z, rng: relay.divide(relay.const(2.0), relay.sqrt(x)),
    lambda x, y, z, rng: relay.divide(y, relay.sqrt(relay.add(relay.abs(x), relay.const(1e-3)))),
    lambda x, y, z, rng: relay.strided_slice(x, [0, 0, 0], x.type_annotation.concrete_shape),
    lambda x, y, z, rng: relay.maximum(relay.full(number(rng), x.type_annotation.concrete_shape, "float32"), x),
    lambda x, y, z, rng: relay.nn.pad(x, ((0, 0), (0, 0), (0, 0))),
    lambda x, y, z, rng: relay.add(relay.nn.bias_add(x, number(rng, last(x)), axis=2), number(rng, last(x))),
    lambda x, y, z, rng: (lambda part, spread: relay.multiply(part, relay.rsqrt(spread)))(*centred(x)),
    lambda x, y, z, rng: (lambda part, spread: relay.divide(part, relay.sqrt(spread)))(*centred(x, 0.5)),
    lambda x, y, z, rng: relay.multiply(normed(x), number(rng, last(x))),
    lambda x, y, z, rng: relay.add(normed(x), number(rng, last(x))),
    lambda x, y, z, rng: relay.concatenate([x, none_of(x), y, none_of(y)], axis=1),
    lambda x, y, z, rng: relay.concatenate([none_of(x), x], axis=1),
    lambda x, y, z, rng: relay.strided_slice(x, [0, 1, 0], [9, 1, 9]),
    lambda x, y, z, rng: relay.split(x, (0, x.type_annotation.concrete_shape[1]), axis=1)[1],
    lambda x, y, z, rng: relay.add(
        relay.add(relay.multiply(x, x), relay.multiply(relay.multiply(relay.const(3.0), x), y)),
        relay.multiply(relay.const(2.0), relay.multiply(y, y)),
    ),
)


def none_of(x):
    """A tensor like x without an element along axis 1."""
    first, _, last = x.type_annotation.concrete_shape
    return relay.zeros((first, 0, last), "float32")


def normed(x):
    """A layer norm over the last axis without scale and shift."""
    ones, zeros = (relay.const(np.full(last(x), value, "float32")) for value in (1, 0))
    return relay.nn.layer_norm(x, ones, zeros, axis=-1, center=False, scale=False)


def array(ty: TensorType, rng: np.random.Generator) -> np.ndarray:
    """Numbers of a type, none of them 0."""
    shape, dtype = ty.concrete_shape, numpy_dtype(ty.dtype)
    if dtype.kind in "iub":
        return rng.integers(1, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
    return (rng.uniform(0.1, 2.0, shape)).astype(dtype)


def compared(call: relay.Call, made: relay.Expr, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray] | None:
    """What both compute from the same numbers; None where a size or a function is free."""
    params = list(free_vars(call))
    if not all(isinstance(p.checked_type, TensorType) and p.checked_type.is_static for p in params):
        return None
    inputs = [array(p.checked_type, rng) for p in params]
    found = [evaluate(infer_module(relay.IRModule.from_expr(relay.Function(params, e))), inputs) for e in (call, made)]
    if isinstance(found[0], list):  # of a tuple
        assert [a.shape for a in found[0]] == [a.shape for a in found[1]]
        return np.concatenate([a.ravel() for a in found[0]]), np.concatenate([a.ravel() for a in found[1]])
    return found[0], found[1]


@pytest.fixture(scope="module")
def applied():
    """For each rule how often both sides were compared, and where they differed."""
    counts, broken = dict.fromkeys(RULES, 0), []
    rng = np.random.default_rng(0)

    def first(call, rules, mod):
        for rule in rules[call.op.name]:
            new = rule(call)
            if new is None or expr.infer_expr(new, mod) != call.checked_type:
                continue
            pair = compared(call, new, rng)
            if pair is not None:
                counts[rule] += 1
                if not holds(LAWS[rule], *pair):
                    broken.append((LAWS[rule].says, call.op.name, float(np.abs(pair[0] - pair[1]).max())))
            return new
        return None

    modules = [case.given() for case in TEXTS] + [generated(seed) for seed in range(SEEDS)]
    modules += [form(k, np.random.default_rng(seed)) for k in range(len(FORMS)) for seed in range(5)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expr, "_applied", first)
        for mod in modules:
            for table in TABLES.values():
                expr.simplify(mod["main"], mod, table)
    return counts, broken


def test_every_rule_states_its_law():
    assert [rule for rule in RULES if rule not in LAWS] == []


def test_both_sides_of_every_law_compute_the_same(applied):
    assert applied[1] == []


def test_every_rule_was_applied(applied):
    assert sorted(LAWS[rule].says for rule, count in applied[0].items() if count == 0) == []
