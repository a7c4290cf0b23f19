"""Expressions over a lane axis as C's vectors: all kinds of nodes give what they mean, and which need no scalar loop.

Each case is a tensor of one axis; its elements are stored by vectors of 8 and, where the axis ends, by a part of one.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from byoc import te
from byoc.codegen.c.language.spellings import RESERVED, SUPPORT, TYPES, C
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.vectors.lane_analysis import can_be_vector
from byoc.codegen.c.vectors.vectors import vector_support
from byoc.codegen.c.whole.statements import StatementWriter
from byoc.codegen.c.whole.support import PREAMBLE
from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.loops import For, Stmt, VectorStore
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.kernel.writer import Names, Writer
from byoc.te.evaluate import evaluate
from byoc.te.expr import Intrinsic
from byoc.te.walk import loaded_tensors

LANES, EXTENT = 8, 43
N = 2 * EXTENT


def _tensors() -> dict[str, te.Tensor]:
    dtypes = ("float32", "float64", "int32", "int64", "int8", "uint8", "bool", "uint32")
    return {d: te.placeholder((N,), d, d) for d in dtypes}


T = _tensors()
F, D, J, L, B = (T[d] for d in ("float32", "float64", "int32", "int64", "bool"))


def _pow(x, y):
    return Intrinsic("pow", [x, y])


def _when(cond, then, otherwise):
    return te.if_then_else(cond, then, otherwise)


def _chain(x):
    for _ in range(8):
        x = x * x
    return x


# name -> (element i, whether vectors alone compute it)
CASES = {
    "arithmetic": (lambda i: (F[i] + F[i + 3]) * 2.0 - F[i] / 3.0, True),
    "a splat": (lambda i: F[i] * F[te.const(5, "int64")] - F[te.const(1, "int64")], True),
    "nothing but a splat": (lambda i: F[te.const(5, "int64")] + 1.0, True),
    "a number": (lambda i: te.const(-0.0, "float32"), True),
    "every other": (lambda i: F[i * 2], True),
    "backwards": (lambda i: F[EXTENT - 1 - i] + 1.0, True),
    "a gather": (lambda i: F[te.minimum(te.maximum(L[i], 0), N - 1)] * 2.0, False),
    "a wrapped place": (lambda i: F[(i * 7) % 5] + F[i], False),
    "doubles": (lambda i: D[i] * D[i + 1] - 0.5, True),
    "ints": (lambda i: J[i] * 3 - J[i + 1], True),
    "longs": (lambda i: L[i] * 3 - L[i + 1], True),
    "bytes": (lambda i: T["int8"][i] * T["int8"][i + 1] + 100, True),
    "bits": (lambda i: te.binary("bit_xor", te.binary("bit_and", J[i], 12), te.binary("bit_or", J[i], J[i + 1])), True),
    "whole division": (lambda i: te.binary("div", J[i], 3) + te.binary("mod", J[i + 1], 5), False),
    "extremes": (lambda i: te.minimum(te.maximum(F[i], F[i + 1]), F[i + 2]), True),
    "extremes of numbers": (lambda i: te.minimum(te.maximum(F[i], -1.0), 1.0), True),
    "extremes of ints": (lambda i: te.minimum(te.maximum(J[i], J[i + 1]), 2), True),
    "a blend": (lambda i: _when(F[i] > 0.0, F[i], F[i] * 0.1), True),
    "a blend of ints by floats": (lambda i: _when(F[i] > 0.0, J[i], 7), True),
    "a blend of doubles by ints": (lambda i: _when(te.binary("eq", J[i], 1), D[i], D[i + 1]), True),
    "logic": (lambda i: _when(te.binary("and", F[i] > 0.0, te.binary("or", B[i], J[i] < 2)), F[i], 1.0), True),
    "not": (lambda i: _when(Intrinsic("not", [B[i]]), F[i], -F[i]), True),
    "a guarded load": (lambda i: _when(te.binary("and", i >= 3, i < 40), F[i - 3], 0.5), False),
    "a loop's condition": (lambda i: _when(L[te.const(0, "int64")] > 100, F[i + 1000], F[i]), True),
    "a position": (lambda i: F[i] + te.cast("float32", i * 2), True),
    "a stored bool": (lambda i: F[i] < F[i + 1], True),
    "a stored bool of doubles": (lambda i: te.binary("or", D[i] < 0.0, B[i]), True),
    "a copied bool": (lambda i: B[i], True),
    "equal bools": (lambda i: te.binary("eq", B[i], F[i] > 0.0), True),
    "an uncertain mask": (lambda i: te.binary("and", i >= 3, F[i - 3] > 0.0), False),
    "float from int": (lambda i: te.cast("float32", J[i]) * 0.5, True),
    "float from byte": (lambda i: te.cast("float32", T["uint8"][i]), True),
    "float from bool": (lambda i: te.cast("float32", B[i]) + te.cast("float32", F[i] > 0.0), True),
    "int from bool": (lambda i: te.cast("int32", B[i]) + J[i], True),
    "int from float": (lambda i: te.cast("int32", F[i] * 3.0), True),
    "byte from float": (lambda i: te.cast("int8", F[i] * 3.0), True),
    "bool from float": (lambda i: te.cast("bool", F[i]), True),
    "unsigned from float": (lambda i: te.cast("uint32", te.abs(F[i])), False),
    "double from float": (lambda i: te.cast("float64", F[i]) * D[i], True),
    "float from double": (lambda i: te.cast("float32", D[i] * 3.0), True),
    "tests": (lambda i: _when(Intrinsic("isnan", [F[i]]), 0.0, _when(Intrinsic("isinf", [F[i]]), 1.0, F[i])), True),
    "gelu": (lambda i: F[i] * 0.5 * (te.erf(F[i] * 0.70710678) + 1.0), True),
    "roots": (lambda i: te.sqrt(te.abs(F[i])) + te.rsqrt(te.abs(F[i + 1]) + 1.0), True),
    "double functions": (lambda i: te.exp(D[i]) + te.floor(D[i]) + te.sqrt(te.abs(D[i])), True),
    "powers": (lambda i: _pow(F[i], te.const(2.0, "float32")) + _pow(F[i], te.const(3.0, "float32")), True),
    "a real power": (lambda i: _pow(te.abs(F[i]), F[i + 1]), False),
    "signs": (lambda i: Intrinsic("sign", [F[i]]) + te.cast("float32", Intrinsic("sign", [J[i]])), True),
    "what is used often": (lambda i: _chain(F[i] * 0.01 + 0.9), True),
}


def _tensor(name: str) -> te.Tensor:
    return te.compute((EXTENT,), CASES[name][0], name="out")


def _whole(stage: te.Tensor) -> tuple[te.Index, te.PrimExpr, te.PrimExpr]:
    lane, block = te.Index("lane", LANES), te.Index("block", EXTENT // LANES)
    place = block * LANES + lane
    return block, place, substitute_axes(stage.body, stage.axes, [place])


def _statements(stage: te.Tensor) -> list[Stmt]:
    block, place, value = _whole(stage)
    lane = place.right
    rest = lane + EXTENT // LANES * LANES
    tail = substitute_axes(stage.body, stage.axes, [rest])
    return [
        For(block, block.extent, [VectorStore(stage, [place], value, lane)]),
        VectorStore(stage, [rest], tail, lane, EXTENT % LANES),
    ]


def _function(stage: te.Tensor, symbol: str) -> tuple[str, StatementWriter]:
    names = Names(RESERVED)
    sources = loaded_tensors(stage.body)
    arguments = [f"const {TYPES[t.dtype]} *restrict {names(t, t.name)}" for t in sources]
    arguments.append(f"{TYPES[stage.dtype]} *restrict {names(stage, stage.name)}")
    signature = f"void {symbol}({', '.join(arguments)})"
    writer = Writer()
    statements = StatementWriter(writer, ExprWriter(C, names, Simplifier()))
    with writer.block(f"{signature} {{"):
        statements.block(_statements(stage))
    return f"{signature};\n{writer.text()}", statements


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    bodies, vectors, helpers = [], {}, {}
    for k, name in enumerate(CASES):
        text, statements = _function(_tensor(name), f"case_{k}")
        bodies.append(text)
        vectors.update(statements.vectors)
        helpers.update(statements.exprs.helpers)
    support = [*vector_support(tuple(vectors)), *(SUPPORT[n](d) for n, d in helpers)]
    path = tmp_path_factory.mktemp("lanes") / "lanes.so"
    flags = ("-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Wpedantic", "-fwrapv", "-fno-tree-loop-if-convert")
    path.write_bytes(find_compiler().build("\n".join([PREAMBLE, *support, *bodies]), flags))
    return ctypes.CDLL(str(path))


def _values() -> dict[te.Tensor, np.ndarray]:
    rng = np.random.default_rng(1)
    values = {}
    for dtype, tensor in T.items():
        if dtype == "bool":
            values[tensor] = rng.integers(0, 2, N).astype(bool)
        elif "float" in dtype:
            values[tensor] = rng.normal(size=N).astype(dtype)
        else:
            values[tensor] = rng.integers(0 if dtype[0] == "u" else -100, 100, N).astype(dtype)
    values[F][[3, 11, 40]] = np.nan
    values[F][[5, 30]] = np.inf
    return values


@pytest.mark.needs_cc
@pytest.mark.parametrize("name", CASES)
def test_vectors_compute_what_the_expression_means(name, library):
    stage, values = _tensor(name), _values()
    if name in ("int from float", "byte from float", "unsigned from float"):
        values[F] = np.nan_to_num(values[F], nan=1.25, posinf=2.5)
    with np.errstate(all="ignore"):
        want = evaluate(stage, values)
    guard = np.full(EXTENT + LANES, 77, want.dtype)
    arrays = [values[t] for t in loaded_tensors(stage.body)] + [guard]
    getattr(library, f"case_{list(CASES).index(name)}")(*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))
    if want.dtype.kind == "f":
        np.testing.assert_allclose(guard[:EXTENT], want, rtol=2e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(guard[:EXTENT], want)
    np.testing.assert_array_equal(guard[EXTENT:], np.full(LANES, 77, want.dtype))


@pytest.mark.parametrize("name", CASES)
def test_it_is_known_which_expressions_vectors_alone_compute(name):
    simplify = Simplifier()
    _, place, value = _whole(_tensor(name))
    assert can_be_vector(simplify(value), place.right, LANES, simplify) is CASES[name][1]


def test_sixteen_doubles_are_no_vector():
    simplify, lane = Simplifier(), te.Index("lane", 16)
    assert not can_be_vector(D[lane] * 2.0, lane, 16, simplify)
    assert can_be_vector(F[lane] * 2.0, lane, 16, simplify)


def test_a_reduction_is_no_vector():
    r, lane = te.reduce_axis(3), te.Index("lane", 16)
    assert not can_be_vector(te.sum(F[lane + r], r), lane, 16, Simplifier())


def test_what_is_used_twice_at_each_of_many_levels_is_written_once():
    def powers(i):
        value = F[i]
        for _ in range(100):
            value = value * value
        return value

    text, _ = _function(te.compute((EXTENT,), powers, name="out"), "powers")
    assert text.count("*") < 300
