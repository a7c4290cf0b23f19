"""Which stages of a group are computed row by row, and what of them needs no buffer; how exact long sums are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from byoc import te
from byoc.codegen.c.emit import emit_programs
from byoc.codegen.c.rows.rows import common_depth, local_stages, rows_of
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.c.whole.schedule import schedule_group
from byoc.codegen.kernel.loops import For, IfThenElse, Share, Stmt
from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.kernel.simplify import Simplifier
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.dso.module import DsoModule

pytestmark = pytest.mark.optimized

AVX512 = Machine(64, 24)


def _softmax(*shape: int) -> list[te.Tensor]:
    x = te.placeholder(shape, name="x")
    r, s = te.reduce_axis(shape[-1], "r"), te.reduce_axis(shape[-1], "s")
    top = te.compute(shape[:-1], lambda *i: te.max(x[(*i, r)], r), name="top")
    e = te.compute(shape, lambda *i: te.exp(x[i] - top[i[:-1]]), name="e")
    total = te.compute(shape[:-1], lambda *i: te.sum(e[(*i, s)], s), name="total")
    return [top, e, total, te.compute(shape, lambda *i: e[i] / total[i[:-1]], name="softmax")]


def test_a_softmax_is_computed_row_by_row_and_keeps_nothing():
    stages = _softmax(4, 50, 100)
    assert [(r.depth, r.stages) for r in rows_of(stages)] == [(2, tuple(stages))]
    assert local_stages(stages, [stages[-1]], AVX512) == tuple(stages[:-1])


def test_what_another_group_reads_keeps_its_buffer():
    stages = _softmax(4, 50, 100)
    assert local_stages(stages, [stages[-1], stages[1]], AVX512) == (stages[0], stages[2])


def test_a_row_that_is_too_long_for_the_stack_keeps_its_buffer():
    top, e, total, softmax = _softmax(50, 100_000)
    assert local_stages([top, e, total, softmax], [softmax], AVX512) == (top, total)


def test_few_long_rows_are_left_to_all_threads():
    stages = _softmax(2, 100_000)
    assert [r.depth for r in rows_of(stages)] == [0, 0, 0, 0]
    assert local_stages(stages, [stages[-1]], AVX512) == ()


def test_a_machine_without_vectors_has_no_rows():
    assert local_stages(_softmax(4, 50, 100), [], Machine(0, 1)) == ()


def test_a_sum_of_products_has_its_own_schedule():
    top, e, total, softmax = _softmax(50, 100)
    w, k = te.placeholder((100, 20), name="w"), te.reduce_axis(100, "k")
    product = te.compute((50, 20), lambda i, j: te.sum(softmax[i, k] * w[k, j], k), name="product")
    assert [len(r.stages) for r in rows_of([top, e, total, softmax, product])] == [4, 1]


def test_rows_that_are_read_at_another_place_are_not_common():
    x = te.placeholder((30, 40), name="x")
    doubled = te.compute((30, 40), lambda i, j: te.exp(x[i, j]), name="doubled")
    flipped = te.compute((30, 40), lambda i, j: doubled[29 - i, j] + doubled[i, j], name="flipped")
    assert common_depth([doubled, flipped]) == 0


@pytest.mark.parametrize("shape", [(9, 9_008), (2, 5, 9_008), (1, 3, 9_008)])
def test_the_stages_of_a_row_are_done_by_one_thread_where_the_row_has_a_buffer_in_memory(shape):
    x = te.placeholder(shape, name="x")
    doubled = te.compute(shape, lambda *i: x[i] * 2.0, name="doubled")
    flipped = te.compute(shape, lambda *i: doubled[(*i[:-1], shape[-1] - 1 - i[-1])] + doubled[i], name="flipped")
    stages = [doubled, flipped]
    assert [r.depth for r in rows_of(stages)] == [len(shape) - 1]
    assert local_stages(stages, [flipped], AVX512) == ()
    (block,) = schedule_group(stages, (), Simplifier(), AVX512)
    assert _shares(block) == 1


def _shares(statements: Sequence[Stmt]) -> int:
    """How many loops of *statements* the threads of a team share."""
    return sum(isinstance(s, Share) + (_shares(s.body) if isinstance(s, (For, IfThenElse)) else 0) for s in statements)


@pytest.mark.needs_cc
@pytest.mark.parametrize("length", [1000, 65_536, 1_000_003])
def test_a_long_sum_is_at_least_as_exact_as_pairwise_summation(length):
    rows = 8
    x, r = te.placeholder((rows, length), name="x"), te.reduce_axis(length, "r")
    total = te.compute((rows,), lambda i: te.sum(x[i, r], r), name="total")
    signature = Signature("f", (TensorSpec("x", (rows, length), "float32"),), (TensorSpec("out", (rows,), "float32"),))
    program = prepare(Program("f", signature, (x,), (), (total,), (Group("sum", (), (total,)),)), AVX512)
    source = emit_programs([program], AVX512)
    module = DsoModule(find_compiler().build(source), [signature], source)
    data = np.random.default_rng(0).uniform(0, 1, (rows, length)).astype(np.float32)
    got, exact = np.empty(rows, np.float32), data.astype(np.float64).sum(1)
    module["f"](data, got)
    ours, numpys = np.abs(got - exact).max(), np.abs(data.sum(1) - exact).max()
    assert ours <= max(numpys, np.spacing(exact.max().astype(np.float32)))
