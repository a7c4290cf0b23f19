"""Products of bfloat16 and of 8-bit integers as generated C: against float64 and integers, on words and without them.

Each case runs as the compiler's target does it, and without its dot-product instructions at several widths of vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from byoc import relay, te
from byoc.codegen.c.contraction.shape import PANEL
from byoc.codegen.c.contraction.word_products import WORD, use_words, words_of_array
from byoc.codegen.c.emit import emit_programs
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine, machine_of
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.json.backend import compile_functions as compile_json
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.kernel.region import constant_arrays, fuse_body
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, RelayExpr
from byoc.relay.transform import FoldConstant, InferType
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import Signature
from byoc.runtime.dso.module import DsoModule
from byoc.te.evaluate import evaluate

pytestmark = pytest.mark.needs_cc
STRICT = ("-Wall", "-Wextra", "-Werror", "-Wno-psabi")
PLAIN = tuple(f"-U{macro}" for macro in ("__AVX512BF16__", "__AVX512VNNI__", "__AVXVNNI__"))
WAYS = ("as the target", "plain of 512 bits", "plain of 256 bits", "plain of 128 bits", "without vectors")
PLAIN_MACHINES = {
    "plain of 512 bits": Machine(64, 24, 32),
    "plain of 256 bits": Machine(32, 12, 16),
    "plain of 128 bits": Machine(16, 8, 16),
    "without vectors": Machine(4, 8, 16),
}
BF16 = numpy_dtype("bfloat16")


@dataclass(frozen=True)
class Numbers:
    """How a case is made: dtypes of data, of weights and of the sum, and the weights' values."""

    data: str
    weight: str
    total: str
    values: Callable[[tuple[int, ...]], np.ndarray]

    def var(self, name: str, *shape: int | str) -> RelayExpr:
        dims = tuple(relay.Any(d) if isinstance(d, str) else d for d in shape)
        return relay.var(name, shape=dims, dtype=self.data)

    def weights(self, *shape: int) -> RelayExpr:
        return relay.const(self.values(shape).astype(numpy_dtype(self.weight)))


def _reals(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(BF16)


def _bytes(shape: tuple[int, ...]) -> np.ndarray:
    """Signed bytes with many of the extremes."""
    rng = np.random.default_rng(sum(shape))
    return np.where(rng.random(shape) < 0.3, -128, rng.integers(-128, 128, shape))


def _dense(n: Numbers, m: int | str, k: int, units: int) -> RelayExpr:
    return relay.nn.dense(n.var("x", m, k), n.weights(units, k), out_dtype=n.total)


def _conv(n: Numbers, size: tuple[int, int], c: int, out: int, kernel: int, **attrs: object) -> RelayExpr:
    groups = int(attrs.get("groups", 1))  # type: ignore[call-overload]
    pad = (kernel // 2,) * 4
    return relay.nn.conv2d(
        n.var("x", 1, *size, c),
        n.weights(kernel, kernel, c // groups, out),
        kernel_size=(kernel, kernel),
        channels=out,
        data_layout="NHWC",
        kernel_layout="HWIO",
        padding=pad,
        out_dtype=n.total,
        **attrs,
    )


def _products(n: Numbers, b: int, m: int, k: int, columns: int, transposed: bool) -> RelayExpr:
    y = n.var("y", *((b, columns, k) if transposed else (b, k, columns)))
    return relay.nn.batch_matmul(n.var("x", b, m, k), y, transpose_b=transposed, out_dtype=n.total)


CASES: dict[str, Callable[[Numbers], RelayExpr]] = {
    **{
        f"dense {m} {k} {u}": lambda n, m=m, k=k, u=u: _dense(n, m, k, u)  # type: ignore[misc]
        for m, k, u in [(1, 6, 3), (1, 64, 100), (7, 33, 17), (13, 1, 40), (31, 20, 24), (50, 71, 130), (3, 9, 2)]
    },
    "dense of a named number of rows": lambda n: _dense(n, "rows", 19, 37),
    **{
        f"3x3 over {h}x{w}, {c} to {u}": lambda n, h=h, w=w, c=c, u=u: _conv(n, (h, w), c, u, 3)  # type: ignore[misc]
        for h, w, c, u in [(7, 7, 32, 40), (5, 1, 8, 16), (1, 2, 9, 33), (14, 15, 24, 3)]
    },
    "3x3 of stride 2": lambda n: _conv(n, (15, 14), 16, 24, 3, strides=(2, 2)),
    "7x7 of 3 channels": lambda n: _conv(n, (23, 22), 3, 20, 7, strides=(2, 2)),
    "1x1": lambda n: _conv(n, (9, 11), 20, 50, 1),
    "grouped": lambda n: _conv(n, (9, 10), 32, 64, 3, groups=4),
    "depthwise": lambda n: _conv(n, (9, 10), 16, 16, 3, groups=16),
}
ATTENTION: dict[str, Callable[[Numbers], RelayExpr]] = {
    f"batch_matmul {b} {m} {k} {c} {t}": lambda n, b=b, m=m, k=k, c=c, t=t: _products(n, b, m, k, c, t)  # type: ignore
    for b, m, k, c, t in [(3, 19, 16, 19, True), (2, 20, 21, 64, False), (2, 9, 5, 7, False), (1, 40, 33, 18, True)]
}
HALF, DOUBLE = Numbers("bfloat16", "bfloat16", "float32", _reals), Numbers("float64", "float64", "float64", _reals)
INT8, INT32 = Numbers("uint8", "int8", "int32", _bytes), Numbers("int32", "int32", "int32", _bytes)


def _function(body: RelayExpr) -> Function:
    mod = IRModule.from_expr(Function(relay.analysis.free_vars(body), body))
    return fuse_body(FoldConstant()(InferType()(mod))["main"].with_attr("global_symbol", "f"))  # type: ignore[attr-defined]


NARROW = {
    **{f"bf16 {name}": _function(make(HALF)) for name, make in {**CASES, **ATTENTION}.items()},
    **{f"int8 {name}": _function(make(INT8)) for name, make in CASES.items()},
}
WIDE = {
    **{f"bf16 {name}": _function(make(DOUBLE)) for name, make in {**CASES, **ATTENTION}.items()},
    **{f"int8 {name}": _function(make(INT32)) for name, make in CASES.items()},
}


def _machine(way: str) -> Machine:
    return PLAIN_MACHINES.get(way) or find_compiler().machine


def _programs(machine: Machine) -> list[Program]:
    return [prepare(lower_function(f, f"case_{k}"), machine) for k, f in enumerate(NARROW.values())]


BY_DEFAULT = [pytest.param(w, marks=pytest.mark.slow) if w == "plain of 128 bits" else w for w in WAYS]


@pytest.fixture(scope="module", params=BY_DEFAULT)
def module(request) -> DsoModule:
    """All cases in one library, for one way."""
    programs = _programs(_machine(request.param))
    source = emit_programs(programs, _machine(request.param))
    flags = STRICT if request.param == WAYS[0] else (*STRICT, *PLAIN)
    return DsoModule(
        find_compiler().build(source, flags), [p.signature for p in programs], source, constant_arrays(programs)
    )


def _numpy(function: Function, arrays: list[np.ndarray], shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """What the numpy kernels compute."""
    module = compile_json({"f": function})
    for symbol, names in module.constants().items():
        module.initialize(symbol, [module.constant_arrays[n] for n in names])
    result = np.empty(shape, dtype)
    module["f"](*arrays, result)
    return result


def _inputs(function: Function) -> list[np.ndarray]:
    rng, arrays = np.random.default_rng(5), []
    for param in function.params:
        shape = [d if isinstance(d, int) else 29 for d in param.checked_type.shape]
        if param.checked_type.dtype == "uint8":
            arrays.append(np.where(rng.random(shape) < 0.3, 255, rng.integers(0, 256, shape)).astype("uint8"))
        else:
            arrays.append(rng.standard_normal(shape).astype(BF16))
    return arrays


@pytest.mark.parametrize("name", list(NARROW))
def test_a_narrow_product_is_exact_but_for_the_rounding_of_its_sums(name, module):
    function, arrays = NARROW[name], _inputs(NARROW[name])
    ty = function.body.checked_type
    shape = tuple(d if isinstance(d, int) else 29 for d in ty.shape)
    got = np.full(shape, 77, ty.dtype)
    module[f"case_{list(NARROW).index(name)}"](*arrays, got)
    if ty.dtype == "int32":
        np.testing.assert_array_equal(got, _numpy(WIDE[name], [a.astype("int32") for a in arrays], shape, "int32"))
        return
    want = _numpy(WIDE[name], [a.astype("float64") for a in arrays], shape, "float64")
    terms = int(np.prod(arrays[0].shape[1:])) if "dense" in name else 600
    scale = np.abs(want).max() + np.sqrt(terms)
    np.testing.assert_allclose(got, want, rtol=0, atol=2**-22 * scale)


def test_sums_of_channels_are_words_in_panels_and_depthwise_sums_are_not():
    for name, program in zip(NARROW, _programs(Machine(64, 24, 32)), strict=True):
        if "depthwise" in name or "13 1 40" in name or "batch_matmul" in name:
            continue
        assert any(t.tag == PANEL and t.dtype == WORD for t, _ in program.constants), name


def test_words_mean_what_the_expression_meant():
    x, w = te.placeholder((3, 10), "uint8", "x"), te.placeholder((4, 10), "int8", "w")
    k = te.reduce_axis(10, "k")
    product = te.compute((3, 4), lambda i, j: te.sum(te.cast("int32", x[i, k]) * te.cast("int32", w[j, k]), k))
    rng = np.random.default_rng(0)
    values = {x: rng.integers(0, 256, (3, 10)).astype("uint8"), w: rng.integers(-128, 128, (4, 10)).astype("int8")}
    made = _words_of(product)
    assert [s.dtype for s in made[:-1]] == [WORD, WORD] and evaluate(made[-1], values).dtype == np.int32
    np.testing.assert_array_equal(evaluate(made[-1], values), evaluate(product, values))


def _words_of(stage: te.Tensor) -> tuple[te.Tensor, ...]:
    program = Program("f", Signature("f", (), (), ()), (), (), (stage,), (Group("g", (), (stage,)),))
    return use_words(program).groups[0].stages


def test_a_word_holds_the_first_number_in_its_low_bits():
    words = words_of_array(np.array([[1, 2, 3, 4, 5]], np.uint8), 1, 4)
    np.testing.assert_array_equal(words, [[0x04030201, 5]])


def test_rounding_to_bfloat16_is_numpys_for_every_kind_of_number(rounded):
    bits, got = rounded
    x = bits.view(np.float32)
    with np.errstate(invalid="ignore"):
        want = x.astype(BF16).view(np.uint16)
    numbers = ~np.isnan(x) & ~((np.abs(x) < 2.0**-126) & (x != 0))  # instructions take denormals as 0
    np.testing.assert_array_equal(got[numbers], want[numbers])
    assert np.isnan(got.view(BF16)[np.isnan(x)].astype(np.float32)).all()


@pytest.fixture(scope="module", params=WAYS)
def rounded(request) -> tuple[np.ndarray, np.ndarray]:
    """Bit patterns of float32, and those of bfloat16 to which generated code rounds them."""
    rng = np.random.default_rng(1)
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    ties = (upper[:, None] + np.array([0, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)).reshape(-1)
    bits = np.concatenate([ties, rng.integers(0, 1 << 32, 5000, dtype=np.uint32)])
    x = relay.var("x", shape=(len(bits),))
    program = prepare(lower_function(_function(relay.cast(x, "bfloat16")), "f"), _machine(request.param))
    source = emit_programs([program], _machine(request.param))
    flags = STRICT if request.param == WAYS[0] else (*STRICT, *PLAIN)
    module = DsoModule(find_compiler().build(source, flags), [program.signature], source, {})
    result = np.empty(len(bits), BF16)
    module["f"](bits.view(np.float32), result)
    return bits, result.view(np.uint16)


def test_arithmetic_on_bfloat16_is_done_in_float32_and_rounded():
    x, y = (relay.var(n, shape=(37,), dtype="bfloat16") for n in "xy")
    function = _function(relay.maximum(relay.multiply(x, relay.add(x, y)), relay.sqrt(relay.abs(y))))
    program = prepare(lower_function(function, "f"), find_compiler().machine)
    source = emit_programs([program], find_compiler().machine)
    module = DsoModule(find_compiler().build(source, STRICT), [program.signature], source, {})
    a, b = (np.random.default_rng(k).standard_normal(37).astype(BF16) for k in (1, 2))
    result = np.empty(37, BF16)
    module["f"](a, b, result)
    np.testing.assert_array_equal(result, np.maximum(a * (a + b), np.sqrt(np.abs(b))))


def test_the_machine_says_which_dot_products_it_has():
    both = {"__AVX512F__": "1", "__AVX512BF16__": "1", "__AVX512VNNI__": "1"}
    assert machine_of(both).dots == {"dot_bf16", "dot_u8s8"}
    assert machine_of({"__AVX__": "1", "__AVXVNNI__": "1"}).dots == {"dot_u8s8"}
    assert machine_of({"__AVX512F__": "1"}).dots == frozenset()
