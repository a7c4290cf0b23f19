"""Products on matrix registers (Intel's AMX) as generated C, under an emulation of their instructions in plain C.

The emulation (``amx_emulation.h``) ends the program where the processor would raise an exception: shapes that do not
match, registers without a shape, more of them than there are. The same sources compile for the real instructions too.
"""

from __future__ import annotations

import ctypes
import dataclasses
import platform
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.c.contraction.matrix_products import equal_steps
from byoc.codegen.c.contraction.tile_choice import Tile
from byoc.codegen.c.contraction.tile_space import META, choice_of, tile_of
from byoc.codegen.c.emit import emit_programs
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine, machine_of, processor_of
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.json.backend import compile_functions as compile_json
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.region import fuse_body
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, RelayExpr, constant
from byoc.relay.transform import FoldConstant, InferType
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.dso.module import DsoModule
from byoc.te import Tensor

pytestmark = [
    pytest.mark.needs_cc,
    pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="AMX's intrinsics are x86-64's"),
]
EMULATION = Path(__file__).with_name("amx_emulation.h")
MACROS = ("__AMX_TILE__", "__AMX_BF16__", "__AMX_INT8__")
EMULATED = (
    "-O1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-psabi",
    *(f"-D{m}=1" for m in MACROS),
    "-include",
    str(EMULATION),
)
DOTS = frozenset(["dot_bf16", "dot_u8s8"])
MACHINE = Machine(64, 24, 32, DOTS, DOTS)
BF16 = numpy_dtype("bfloat16")
SUMS = {"bfloat16": "float32", "uint8": "int32"}
WIDE = {"bfloat16": "float64", "uint8": "int32"}
Build = Callable[[str], RelayExpr]  # of the dtype of the data: bfloat16 or uint8, or the wide one for the reference


def _weights(dtype: str, *shape: int) -> RelayExpr:
    rng = np.random.default_rng(sum(shape))
    if dtype in ("uint8", "int32"):
        values = np.where(rng.random(shape) < 0.3, -128, rng.integers(-128, 128, shape))
        return constant(values.astype("int8" if dtype == "uint8" else dtype))
    return constant(rng.standard_normal(shape).astype(BF16).astype(numpy_dtype(dtype)))


def _total(dtype: str) -> str:
    return SUMS.get(dtype, dtype)


def _ended(sums: RelayExpr, dtype: str, width: int) -> RelayExpr:
    """A bias and a bound, as epilogue."""
    bias = constant(np.arange(width).astype(_total(dtype)))
    return relay.maximum(relay.add(sums, bias), constant(np.array(3, _total(dtype))))


def _dense(m: int | str, k: int, n: int) -> Build:
    def build(dtype: str) -> RelayExpr:
        x = relay.var("x", shape=(relay.Any(m) if isinstance(m, str) else m, k), dtype=dtype)
        return _ended(relay.nn.dense(x, _weights(dtype, n, k), out_dtype=_total(dtype)), dtype, n)

    return build


def _conv(size: tuple[int, int], c: int, n: int, kernel: int, batch: int = 1, **attrs: object) -> Build:
    def build(dtype: str) -> RelayExpr:
        x = relay.var("x", shape=(batch, *size, c), dtype=dtype)
        padding = attrs.get("padding", (kernel // 2,) * 4)
        sums = relay.nn.conv2d(
            x,
            _weights(dtype, kernel, kernel, c, n),
            kernel_size=(kernel, kernel),
            channels=n,
            data_layout="NHWC",
            kernel_layout="HWIO",
            out_dtype=_total(dtype),
            **{**attrs, "padding": padding},
        )
        return _ended(sums, dtype, n)

    return build


def _products(b: int, m: int, k: int, n: int, transposed: bool) -> Build:
    def build(dtype: str) -> RelayExpr:
        x = relay.var("x", shape=(b, m, k), dtype=dtype)
        y = relay.var("y", shape=(b, n, k) if transposed else (b, k, n), dtype=dtype)
        return relay.nn.batch_matmul(x, y, transpose_b=transposed, out_dtype=_total(dtype))

    return build


CASES: dict[str, Build] = {
    "whole blocks": _dense(64, 128, 64),
    "a long sum": _dense(32, 1600, 32),
    "rows, words and lanes that remain": _dense(50, 71, 130),
    "one register of rows": _dense(9, 64, 48),
    "a prime number of rows": _dense(197, 96, 40),
    "few lanes": _dense(33, 64, 17),
    "seven words a step": _dense(40, 28 * 5, 64),
    "one word": _dense(40, 4, 64),
    "3x3": _conv((14, 15), 32, 48, 3),
    "3x3 over wide rows": _conv((3, 56), 64, 32, 3),
    "3x3 of stride 2": _conv((15, 30), 64, 40, 3, strides=(2, 2)),
    "3x3 of two images": _conv((7, 7), 64, 33, 3, batch=2),
    "5x5 with borders at both ends of a register": _conv((10, 10), 64, 32, 5),
    "3x3 dilated": _conv((13, 21), 32, 20, 3, dilation=(2, 2), padding=(2, 2, 2, 2)),
    "uneven padding": _conv((9, 20), 48, 16, 3, padding=(0, 3, 2, 1)),
    "without padding": _conv((9, 20), 16, 64, 3, padding=(0, 0, 0, 0)),
    "1x1": _conv((9, 11), 40, 50, 1),
    "1x1 of stride 2": _conv((9, 31), 64, 64, 1, strides=(2, 2)),
}
BF16_CASES: dict[str, Build] = {
    "batched, transposed": _products(3, 40, 64, 48, True),
    "batched": _products(2, 33, 32, 64, False),
}


def _random_cases(count: int) -> dict[str, Build]:
    rng, found = np.random.default_rng(11), {}
    for k in range(count):
        size = (int(rng.integers(2, 12)), int(rng.integers(8, 40)))
        c, n, kernel = int(rng.integers(1, 12)) * 8, int(rng.integers(17, 80)), int(rng.choice([1, 3]))
        strides = (int(rng.integers(1, 3)), int(rng.integers(1, 3)))
        found[f"random {k}: {kernel}x{kernel} over {size[0]}x{size[1]}, {c} to {n}, by {strides}"] = _conv(
            size, c, n, kernel, strides=strides
        )
    return found


CASES |= _random_cases(8)
NAMED = "a named number of rows"
CASES[NAMED] = _dense("rows", 96, 75)
NAMES = [("bfloat16", n) for n in (*CASES, *BF16_CASES)] + [("uint8", n) for n in CASES]


def _function(dtype: str, name: str) -> Function:
    body = {**CASES, **BF16_CASES}[name](dtype)
    mod = IRModule.from_expr(Function(relay.analysis.free_vars(body), body))
    return fuse_body(FoldConstant()(InferType()(mod))["main"].with_attr("global_symbol", "f"))


def _program(dtype: str, name: str, symbol: str = "f") -> Program:
    return prepare(lower_function(_function(dtype, name), symbol), MACHINE)


@dataclasses.dataclass(frozen=True)
class Library:
    """All cases in one library, and their source."""

    handle: ctypes.CDLL
    programs: list[Program]
    source: str


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Library:
    programs = [_program(dtype, name, f"case_{k}") for k, (dtype, name) in enumerate(NAMES)]
    source = emit_programs(programs, MACHINE)
    path = tmp_path_factory.mktemp("amx") / "cases.so"
    path.write_bytes(find_compiler().build(source, EMULATED))
    return Library(ctypes.CDLL(str(path)), programs, source)


class _Team(ctypes.Structure):
    _fields_ = [
        ("thread", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("meeting", ctypes.c_void_p),
        ("run", ctypes.c_void_p),
    ]


def _run(library: Library, case: tuple[str, str], inputs: list[np.ndarray], threads: int, rows: int = 1) -> np.ndarray:
    """The result of *threads* that call the entry together; *rows* is the size that has a name."""
    program = library.programs[NAMES.index(case)]
    size = getattr(library.handle, f"{program.symbol}_workspace")
    size.restype = ctypes.c_int64
    sizes = np.full(1, rows, "int64")
    space = np.zeros(size(ctypes.c_void_p(sizes.ctypes.data)) + 64, "uint8")
    out = program.outputs[0]
    result = np.full(_shape(out, rows), 77, out.dtype)
    arrays = [*inputs, *(a.numpy() for _, a in program.constants), result]
    meeting, state = np.zeros(64, "int32"), np.zeros(32, "int64")

    def run(thread: int) -> None:
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        team, named = _Team(thread, threads, meeting.ctypes.data, state.ctypes.data), ctypes.c_void_p(sizes.ctypes.data)
        start = space.ctypes.data + -space.ctypes.data % 64
        getattr(library.handle, program.symbol)(pointers, named, ctypes.c_void_p(start), ctypes.byref(team))

    workers = [threading.Thread(target=run, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return result


def _shape(tensor: Tensor, rows: int) -> list[int]:
    return [d if isinstance(d, int) else rows for d in tensor.shape]


def _inputs(program: Program, dtype: str, rows: int = 1) -> list[np.ndarray]:
    rng, arrays = np.random.default_rng(5), []
    for tensor in program.inputs:
        shape = _shape(tensor, rows)
        numbers = np.where(rng.random(shape) < 0.3, 255, rng.integers(0, 256, shape))
        arrays.append(numbers.astype("uint8") if dtype == "uint8" else rng.standard_normal(shape).astype(BF16))
    return arrays


def _expected(dtype: str, name: str, inputs: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """What the numpy kernels compute in wide numbers."""
    module = compile_json({"f": _function(WIDE[dtype], name)})
    for symbol, names in module.constants().items():
        module.initialize(symbol, [module.constant_arrays[n] for n in names])
    result = np.empty(shape, WIDE[dtype])
    module["f"](*(a.astype(WIDE[dtype]) for a in inputs), result)
    return result


@pytest.mark.parametrize(
    ("case", "rows"),
    [
        *((case, 1) for case in NAMES if case[1] != NAMED),
        *(((dtype, NAMED), rows) for dtype in SUMS for rows in (1, 5, 15, 16, 17, 31, 32, 33, 50, 64)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_matrix_registers_compute_what_numpy_does_and_teams_the_same_bits(case, rows, library):
    dtype, name = case
    inputs = _inputs(library.programs[NAMES.index(case)], dtype, rows)
    got = _run(library, case, inputs, 1, rows)
    assert _run(library, case, inputs, 2, rows).tobytes() == got.tobytes()
    want = _expected(dtype, name, inputs, got.shape)
    if dtype == "uint8":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=0, atol=2**-22 * (np.abs(want).max() + 25))


def test_every_case_but_that_of_one_word_is_done_on_matrix_registers():
    for dtype, name in NAMES:
        instruction = {"bfloat16": "_tile_dpbf16ps", "uint8": "_tile_dpbusd"}[dtype]
        source = emit_programs([_program(dtype, name)], MACHINE)
        assert (instruction in source) == (name != "one word"), (dtype, name)


def _attention(rows: int, features: int) -> Program:
    """``softmax(q k) v`` as one group, whose products are done for a few rows at a time."""
    q, k, v = (relay.var(n, shape=(2, rows, features), dtype="bfloat16") for n in "qkv")
    scores = relay.nn.softmax(relay.nn.batch_matmul(q, k, transpose_b=True, out_dtype="float32"))
    body = relay.nn.batch_matmul(relay.cast(scores, "bfloat16"), v, transpose_b=False, out_dtype="float32")
    mod = InferType()(IRModule.from_expr(Function([q, k, v], body)))
    return prepare(lower_function(mod["main"].with_attr({"global_symbol": "f", "Primitive": 1}), "f"), MACHINE)


@pytest.mark.parametrize(("rows", "features", "on_registers"), [(280, 128, True), (40, 32, False)])
def test_a_nest_inside_of_others_takes_the_registers_where_it_is_long(rows, features, on_registers):
    program = _attention(rows, features)
    assert len(program.groups) == 1
    source = emit_programs([program], MACHINE)
    assert ("_tile_loadconfig(" in source) == on_registers
    module = DsoModule(find_compiler().build(source, EMULATED), [program.signature], source, {})
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((2, rows, features)).astype(BF16) for _ in "qkv")
    got = np.empty((2, rows, features), "float32")
    module["f"](q, k, v, got)
    scores = np.einsum("hid,hjd->hij", q.astype("float64"), k.astype("float64"))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = (weights / weights.sum(axis=-1, keepdims=True)).astype("float32").astype(BF16)
    want = np.einsum("hij,hjd->hid", weights.astype("float64"), v.astype("float64"))
    np.testing.assert_allclose(got, want, rtol=0, atol=2**-8 * np.abs(want).max())  # a weight may be rounded otherwise


def test_one_row_is_left_to_vectors():
    body = _dense(1, 256, 256)("bfloat16")
    mod = InferType()(IRModule.from_expr(Function(relay.analysis.free_vars(body), body)))
    function = fuse_body(mod["main"].with_attr("global_symbol", "f"))
    assert "_tile_" not in emit_programs([prepare(lower_function(function, "f"), MACHINE)], MACHINE)


def test_without_matrix_registers_no_tile_is_for_them():
    machine = dataclasses.replace(MACHINE, matrices=frozenset(["dot_u8s8"]))
    program = prepare(lower_function(_function("bfloat16", "whole blocks"), "f"), machine)
    assert "_tile_" not in emit_programs([program], machine)


def test_steps_of_words_are_equal_and_fill_a_register_where_they_can():
    assert [equal_steps(n) for n in (1, 8, 16, 24, 36, 99, 17, 384)] == [1, 8, 16, 12, 12, 11, 1, 16]


def test_a_block_of_two_by_two_loads_once_for_each_product():
    body = emit_programs([_program("bfloat16", "whole blocks")], MACHINE)
    loop = body[body.index("for (int64_t k") :]
    loop = loop[: loop.index("}")]
    assert loop.count("_tile_dpbf16ps") == 4 and loop.count("_tile_loadd") == 4


@pytest.mark.parametrize("tile", [Tile(28, 2, 16, True, 14), Tile(6, 4, 16, False)])
def test_a_tile_is_the_same_after_being_a_choice(tile):
    assert tile_of(choice_of(tile, tile.lanes_first), 16) == tile


def test_the_tile_of_a_stage_says_how_many_rows_a_register_has():
    (stage,) = [s for g in _program("bfloat16", "a prime number of rows").groups for s in g.stages if META in s.meta]
    tile = stage.meta[META]
    assert isinstance(tile, Tile) and tile.rows % tile.matrix_rows == 0 and 197 / tile.rows > 6


def test_the_compiler_says_what_matrix_registers_there_are_and_code_needs_them():
    macros = {"__x86_64__": "1", "__AVX512F__": "1", "__AMX_TILE__": "1", "__AMX_INT8__": "1"}
    assert machine_of(macros).matrices == {"dot_u8s8"}
    assert machine_of({**macros, "__AMX_BF16__": "1"}).matrices == DOTS
    assert machine_of({"__AVX512F__": "1", "__AMX_BF16__": "1"}).matrices == frozenset()
    assert processor_of(macros).features == ("avx512f", "amx_tile", "amx_int8")
    both = {**macros, "__AMXTILE__": "1", "__AMXINT8__": "1"}  # as clang calls them, before version 17 alone
    assert processor_of(both).features == ("avx512f", "amx_tile", "amx_int8")
    assert machine_of({"__AVX512F__": "1", "__AMXTILE__": "1", "__AMXBF16__": "1"}).matrices == {"dot_bf16"}


def test_the_same_function_gives_the_same_source():
    first, second = (emit_programs([_program("uint8", "3x3")], MACHINE) for _ in range(2))
    assert first == second


def test_the_golden_source_of_a_product_on_matrix_registers(golden):
    golden("c/matrix_product.c", emit_programs([_program("bfloat16", "3x3 over wide rows", "kernel_0")], MACHINE))


@pytest.mark.parametrize(("dtype", "instruction"), [("bfloat16", "tdpbf16ps"), ("uint8", "tdpbusd")])
def test_the_real_instructions_stand_in_the_inner_loop(dtype, instruction, tmp_path):
    compiler = find_compiler()
    source = tmp_path / "f.c"
    source.write_text(emit_programs([_program(dtype, "a long sum")], MACHINE), encoding="utf-8")
    flags = (*compiler.flags, "-march=sapphirerapids", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-S", "-o", "-")
    done = subprocess.run([*compiler.command, *flags, str(source)], capture_output=True, text=True, check=False)
    if "sapphirerapids" in done.stderr:
        pytest.skip(f"{compiler.version} knows no processor with AMX")
    assert done.returncode == 0, done.stderr
    words = [line.split()[0] for line in done.stdout.splitlines() if line.split()]
    code = [w for w in words if w.startswith(".L") or w[0] not in ".#"]
    end = max(k for k, word in enumerate(code) if word == instruction)
    start = max(k for k, word in enumerate(code[:end]) if word.startswith(".L"))
    loop = code[start + 1 : next(k for k in range(end, len(code)) if code[k].startswith(("j", ".L"))) + 1]
    assert loop[-1].startswith("j") and loop.count(instruction) == loop.count("tileloadd") == 4
    assert len(loop) < 24 and not any(word.startswith("v") for word in loop)
    assert "ldtilecfg" in code and "tilerelease" in code
