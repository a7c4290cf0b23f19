"""Attention without its scores in memory: long rows, batches, head size 1, float64, rows that softmax makes NaNs."""

from __future__ import annotations

import os

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.c.emit import emit_programs
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.c.whole.workspace import plan_workspace
from byoc.codegen.c.winograd.options import WinogradOptions
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.region import constant_arrays
from byoc.ir.module import IRModule
from byoc.ir.types import dtype_bytes
from byoc.relay.expr import Function, RelayExpr
from byoc.relay.transform import InferType
from byoc.runtime.dso.module import DsoModule

pytestmark = pytest.mark.needs_cc
FLAGS = ("-Wall", "-Wextra", "-Werror", "-Wno-psabi", *os.environ.get("BYOC_TEST_CFLAGS", "").split())
AVX512, AVX = Machine(64, 24, 32), Machine(32, 12, 16)
STRICT = WinogradOptions.of({"strict": True})


def _attention(
    b: int, m: int, n: int, d: int, dtype: str = "float32", guard: bool = False, heads: int = 0
) -> tuple[list[RelayExpr], RelayExpr]:
    """``softmax(q k + mask) v``; *guard*: a NaN weighs nothing; *heads* of the batch go behind the rows."""
    q, k, v = (relay.var(name, shape=(b, rows, d), dtype=dtype) for name, rows in (("q", m), ("k", n), ("v", n)))
    mask = relay.var("mask", shape=(1, m, n), dtype=dtype)
    weights = relay.nn.softmax(relay.nn.batch_matmul(q, k, transpose_b=True) + mask)
    if guard:
        weights = relay.where(relay.isnan(weights), relay.const(0.0, dtype), weights)
    result = relay.nn.batch_matmul(weights, v, transpose_b=False)
    if heads:
        result = relay.transpose(relay.reshape(result, (b // heads, heads, m, d)), (0, 2, 1, 3))
    return [q, k, v, mask], result


def _program(made: tuple[list[RelayExpr], RelayExpr], machine: Machine = AVX512, strict: bool = False) -> Program:
    mod = InferType()(IRModule.from_expr(Function(*made)))
    function = mod["main"].with_attr({"global_symbol": "f", "Primitive": 1})
    return prepare(lower_function(function, "f"), machine, allowed=STRICT if strict else WinogradOptions())


def _run(program: Program, arrays: list[np.ndarray], machine: Machine = AVX512) -> np.ndarray:
    source = emit_programs([program], machine)
    module = DsoModule(find_compiler().build(source, FLAGS), [program.signature], source, constant_arrays([program]))
    got = np.full([int(d) for d in program.outputs[0].shape], np.nan, arrays[0].dtype)  # type: ignore[call-overload]
    module["f"](*arrays, got)
    return got


def _arrays(b: int, m: int, n: int, d: int, dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(b + m + n)
    return [rng.standard_normal(s).astype(dtype) for s in ((b, m, d), (b, n, d), (b, n, d), (1, m, n))]


def _expected(arrays: list[np.ndarray], guard: bool = False) -> np.ndarray:
    q, k, v, mask = (a.astype("float64") for a in arrays)
    with np.errstate(all="ignore"):
        scores = np.einsum("hid,hjd->hij", q, k) + mask
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        return np.einsum("hij,hjd->hid", np.where(np.isnan(weights), 0, weights) if guard else weights, v)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [
        ((8, 4096, 4096, 40), "float32"),
        ((2, 1792, 1792, 64), "float32"),
        ((2, 300, 8191, 16), "float32"),
        ((2, 1000, 1000, 64), "float64"),
        ((2, 1000, 1000, 1), "float32"),
    ],
)
def test_long_rows_have_no_buffer_of_scores(sizes, dtype, strict):
    b, m, n, _ = sizes
    workspace = plan_workspace(_program(_attention(*sizes, dtype), strict=strict))
    assert workspace.static_bytes < b * m * n * dtype_bytes(dtype) / 4


def test_the_keys_of_a_row_are_not_limited():
    workspace = plan_workspace(_program(_attention(1, 64, 100_000, 8)))
    assert workspace.static_bytes < 64 * 100_000 * 4 / 4


def test_few_rows_of_scores_are_kept_where_the_division_stays_before_the_sum():
    sizes = (2, 29, 5000, 16)
    program = _program(_attention(*sizes), strict=True)
    assert any(s.tag == "softmax_div" for g in program.groups for s in g.local)
    np.testing.assert_allclose(_run(program, _arrays(*sizes)), _expected(_arrays(*sizes)), rtol=2e-5, atol=2e-6)


def test_a_transpose_of_several_batches_behind_the_product_is_done_after_it():
    b, m, n, d = sizes = (6, 29, 40, 16)
    program = _program(_attention(*sizes, heads=3))
    assert not [s for g in program.groups for s in g.stored if s.shape == (b, m, n)]
    want = _expected(_arrays(*sizes)).reshape(2, 3, m, d).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(_run(program, _arrays(*sizes)), want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("sizes", [(2, 29, 2048, 16), (1, 57, 2101, 33), (3, 3, 5000, 8), (1, 40, 1800, 1)])
@pytest.mark.parametrize("machine", [AVX512, AVX])
def test_blocks_of_keys_give_what_whole_rows_give(sizes, machine):
    got = _run(_program(_attention(*sizes), machine), _arrays(*sizes), machine)
    np.testing.assert_allclose(got, _expected(_arrays(*sizes)), rtol=2e-5, atol=5e-6)


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("keys", [60, 2100])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_masks_and_what_is_no_number_are_as_in_whole_rows(dtype, keys, guard):
    sizes = (2, 16, keys, 8)
    arrays = _arrays(*sizes, dtype)
    mask, least, half = np.zeros((1, 16, keys), dtype), np.finfo(dtype).min, keys // 2
    mask[0, 0, :], mask[0, 1, :half], mask[0, 2, half:] = -np.inf, -np.inf, -np.inf
    mask[0, 3, :], mask[0, 4, 5:], mask[0, 5, :-1] = least, least, least
    mask[0, 6, 3], mask[0, 7, -3], mask[0, 8, 2], mask[0, 9, -2] = np.nan, np.nan, np.inf, np.inf
    mask[0, 10, :], mask[0, 11, :], mask[0, 12, :] = -1e30, np.arange(keys) / 32, np.arange(keys) / -32
    got = _run(_program(_attention(*sizes, dtype, guard)), [*arrays[:3], mask])
    np.testing.assert_allclose(got, _expected([*arrays[:3], mask], guard), rtol=2e-5, atol=5e-6)


@pytest.mark.parametrize("guard", [False, True])
def test_a_softmax_is_divided_behind_the_product_but_where_sums_are_strict(guard):
    stages = {
        strict: [
            s.name for g in _program(_attention(2, 29, 31, 16, guard=guard), strict=strict).groups for s in g.stages
        ]
        for strict in (False, True)
    }
    weights = "where" if guard else "softmax"
    assert weights in stages[True] and weights not in stages[False]
