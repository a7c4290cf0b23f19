"""Contractions with constant weights, in panels and without padded copies, against the numpy kernels.

Shapes are chosen so that rows, lanes and panels end raggedly, images are smaller than kernels, and borders meet.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.c.contraction.shape import PANEL
from byoc.codegen.c.emit import emit_programs
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.json.backend import compile_functions as compile_json
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.region import constant_arrays, fuse_body
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, RelayExpr
from byoc.relay.transform import FoldConstant, InferType
from byoc.runtime.dso.module import DsoModule

pytestmark = pytest.mark.needs_cc
FLAGS = ("-Wall", "-Wextra", "-Werror", "-Wno-psabi", *os.environ.get("BYOC_TEST_CFLAGS", "").split())
MACHINES = {
    "avx512": Machine(64, 24, 32),
    "avx": Machine(32, 12, 16),
    "sse": Machine(16, 8, 16),
    "plain": Machine(4, 8, 16),
}


def _weights(*shape: int) -> RelayExpr:
    return relay.const(np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32"))


def _dense(m: int | str, k: int, n: int) -> RelayExpr:
    x = relay.var("x", shape=(relay.Any(m) if isinstance(m, str) else m, k))
    return relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, _weights(n, k)), _weights(n)))


def _conv(size: tuple[int, int], c: int, n: int, kernel: tuple[int, int], **attrs: object) -> RelayExpr:
    groups = int(attrs.pop("groups", 1))
    x = relay.var("x", shape=(int(attrs.pop("batch", 1)), *size, c))
    layout = "HWIO" if groups == 1 or groups != c else "HWOI"
    shape = (*kernel, c // groups, n) if layout == "HWIO" else (*kernel, c, n // c)
    y = relay.nn.conv2d(
        x,
        _weights(*shape),
        kernel_size=kernel,
        channels=n,
        groups=groups,
        data_layout="NHWC",
        kernel_layout=layout,
        **attrs,
    )
    return relay.nn.relu(relay.add(y, _weights(n)))


def _transposed(size: tuple[int, int], c: int, n: int, **attrs: object) -> RelayExpr:
    x = relay.var("x", shape=(1, *size, c))
    return relay.nn.conv2d_transpose(
        x, _weights(c, n, 3, 3), kernel_size=(3, 3), channels=n, data_layout="NHWC", kernel_layout="IOHW", **attrs
    )


def _products(b: int, m: int, k: int, n: int, transposed: bool) -> RelayExpr:
    x, y = relay.var("x", shape=(b, m, k)), relay.var("y", shape=(b, n, k) if transposed else (b, k, n))
    return relay.nn.batch_matmul(x, y, transpose_b=transposed)


SAME = (1, 1, 1, 1)
CASES = {
    **{
        f"dense {m} {k} {n}": _dense(m, k, n)
        for m, k, n in [(1, 5, 3), (1, 64, 1000), (7, 33, 17), (13, 1, 40), (31, 20, 24), (50, 70, 130), (3, 9, 2)]
    },
    "dense of a named number of rows": _dense("rows", 19, 37),
    **{
        f"3x3 over {h}x{w}, {c} to {n}": _conv((h, w), c, n, (3, 3), padding=SAME)
        for h, w, c, n in [(7, 7, 32, 40), (5, 1, 8, 16), (1, 2, 9, 33), (14, 15, 24, 3), (2, 31, 16, 48)]
    },
    "3x3 of stride 2": _conv((15, 14), 16, 24, (3, 3), padding=SAME, strides=(2, 2)),
    "3x3 dilated": _conv((13, 17), 16, 20, (3, 3), padding=(2, 2, 2, 2), dilation=(2, 2)),
    "uneven padding": _conv((9, 10), 8, 16, (3, 5), padding=(0, 3, 2, 1), strides=(2, 3)),
    "5x5 over a smaller image": _conv((3, 3), 12, 18, (5, 5), padding=(2, 2, 2, 2), batch=2),
    "7x7 of 3 channels": _conv((23, 22), 3, 20, (7, 7), padding=(3, 3, 3, 3), strides=(2, 2)),
    "1x1": _conv((9, 11), 20, 50, (1, 1)),
    "1x1 of stride 2": _conv((9, 11), 20, 50, (1, 1), strides=(2, 2)),
    **{
        f"depthwise {k}x{k} over {h}x{w}x{c}, stride {s}": _conv(
            (h, w), c, c, (k, k), padding=(k // 2,) * 4, strides=(s, s), groups=c
        )
        for h, w, c, k, s in [
            (14, 14, 32, 3, 1),
            (15, 13, 24, 3, 2),
            (7, 7, 40, 5, 1),
            (9, 30, 16, 7, 1),
            (8, 8, 6, 3, 1),
        ]
    },
    "depthwise of two outputs a channel": _conv((9, 9), 8, 16, (3, 3), padding=SAME, groups=8),
    "depthwise of three outputs a channel": _conv((9, 9), 17, 51, (2, 2), groups=17),
    "grouped in threes": _conv((5, 6), 8, 12, (3, 3), padding=SAME, groups=4),
    "grouped": _conv((9, 10), 32, 64, (3, 3), padding=SAME, groups=4),
    "grouped finely": _conv((9, 10), 32, 32, (3, 3), padding=SAME, groups=8),
    "transposed": _transposed((6, 7), 8, 24, strides=(2, 2), padding=SAME, output_padding=(1, 1)),
    "transposed of stride 1": _transposed((5, 5), 9, 16, padding=(0, 0, 0, 0)),
    **{
        f"batch_matmul {b} {m} {k} {n} {t}": _products(b, m, k, n, t)
        for b, m, k, n, t in [(3, 19, 16, 19, True), (2, 20, 21, 64, False), (2, 9, 5, 7, False), (1, 40, 33, 18, True)]
    },
}


def _function(body: RelayExpr) -> Function:
    mod = IRModule.from_expr(Function(relay.analysis.free_vars(body), body))
    return fuse_body(FoldConstant()(InferType()(mod))["main"].with_attr("global_symbol", "f"))  # type: ignore[attr-defined]


FUNCTIONS = {name: _function(body) for name, body in CASES.items()}


def _programs(machine: Machine) -> list[Program]:
    return [prepare(lower_function(f, f"case_{k}"), machine) for k, f in enumerate(FUNCTIONS.values())]


@pytest.fixture(
    scope="module",
    params=[
        "avx512",
        "avx",
        pytest.param("sse", marks=pytest.mark.slow),
        pytest.param("plain", marks=pytest.mark.optimized),
        pytest.param("avx512 optimized", marks=[pytest.mark.optimized, pytest.mark.slow]),
    ],
)
def module(request) -> DsoModule:
    """All cases in one library, written for one machine."""
    machine = MACHINES[request.param.split()[0]]
    programs = _programs(machine)
    source = emit_programs(programs, machine)
    library = find_compiler().build(source, FLAGS)
    return DsoModule(library, [p.signature for p in programs], source, constant_arrays(programs))


def _expected(function: Function, arrays: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    module = compile_json({"f": function})
    for symbol, names in module.constants().items():
        module.initialize(symbol, [module.constant_arrays[n] for n in names])
    result = np.empty(shape, "float32")
    module["f"](*arrays, result)
    return result


@pytest.mark.parametrize("name", list(CASES))
def test_a_contraction_computes_what_the_numpy_kernel_computes(name, module):
    function = FUNCTIONS[name]
    rng = np.random.default_rng(5)
    sizes = {"rows": 29}
    arrays = [
        rng.standard_normal([d if isinstance(d, int) else sizes[d.name] for d in p.checked_type.shape]).astype(
            "float32"
        )
        for p in function.params
    ]
    shape = tuple(d if isinstance(d, int) else sizes[d.name] for d in function.body.checked_type.shape)
    got = np.full(shape, np.nan, "float32")
    module[f"case_{list(CASES).index(name)}"](*arrays, got)
    want = _expected(function, arrays, shape)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * np.abs(want).max())


def test_weights_are_in_panels_and_padded_copies_are_gone():
    for name, program in zip(CASES, _programs(MACHINES["avx512"]), strict=True):
        if name.startswith(("dense", "1x1", "3x3 over")):
            assert any(t.tag == PANEL for t, _ in program.constants), name
        if name.startswith(("3x3 over 7", "depthwise 3x3 over 14")):
            assert [s.tag for g in program.groups for s in g.stages].count("pad") == 0, name


def test_two_machines_and_two_runs_pack_the_same_bytes():
    first, second = (
        [a.numpy().tobytes() for p in _programs(MACHINES["avx"]) for _, a in p.constants] for _ in range(2)
    )
    assert first == second


def _attention(b: int, m: int, n: int, d: int) -> RelayExpr:
    q, k, v = relay.var("q", shape=(b, m, d)), relay.var("k", shape=(b, n, d)), relay.var("v", shape=(b, n, d))
    mask = relay.var("mask", shape=(1, 1, n))
    scores = relay.nn.batch_matmul(q, k, transpose_b=True) * relay.const(0.25, "float32") + mask
    return relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)


@pytest.mark.parametrize("sizes", [(2, 29, 31, 16), (1, 14, 40, 48), (3, 5, 64, 8), (2, 57, 17, 33)])
def test_attention_is_done_by_blocks_of_rows_without_its_matrix_in_memory(sizes):
    body = _attention(*sizes)
    mod = InferType()(IRModule.from_expr(Function(relay.analysis.free_vars(body), body)))
    function = mod["main"].with_attr({"global_symbol": "f", "Primitive": 1})
    program = prepare(lower_function(function, "f"), MACHINES["avx512"])
    (group,) = program.groups
    b, m, n, d = sizes
    assert all(s in group.local for s in group.stages if s.shape == (b, m, n))
    source = emit_programs([program], MACHINES["avx512"])
    module = DsoModule(find_compiler().build(source, FLAGS), [program.signature], source, constant_arrays([program]))
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal([int(x) for x in p.checked_type.shape]).astype("float32") for p in function.params]
    got = np.full((b, m, d), np.nan, "float32")
    module["f"](*arrays, got)
    np.testing.assert_allclose(got, _expected(function, arrays, (b, m, d)), rtol=2e-5, atol=2e-6)


def test_a_kernel_as_large_as_its_image_does_not_write_every_term_out():
    x = relay.var("x", shape=(1, 400, 8))
    body = relay.nn.conv1d_transpose(
        x,
        _weights(8, 16, 400),
        kernel_size=(400,),
        channels=16,
        padding=(199, 200),
        data_layout="NWC",
        kernel_layout="IOW",
    )
    function = _function(body)
    program = prepare(lower_function(function, "f"), MACHINES["avx512"])
    source = emit_programs([program], MACHINES["avx512"])
    assert len(source.splitlines()) < 2000
    module = DsoModule(find_compiler().build(source, FLAGS), [program.signature], source, constant_arrays([program]))
    data = np.random.default_rng(2).standard_normal((1, 400, 8)).astype("float32")
    shape = tuple(int(d) for d in function.body.checked_type.shape)
    got = np.full(shape, np.nan, "float32")
    module["f"](data, got)
    want = _expected(function, [data], shape)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
