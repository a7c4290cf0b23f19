"""The vector functions against float64: every float32 in reach is right to the stated units in the last place.

The samples are random bit patterns (so all magnitudes, denormals and NaNs), dense ranges where a function has its
shape, and the edges. One library for each number of lanes, and for the processor's plainest instructions.
"""

from __future__ import annotations

import ctypes
import math
import platform
import subprocess

import numpy as np
import pytest

from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.vectors.vectors import vector_support
from byoc.codegen.c.whole.support import PREAMBLE

pytestmark = [pytest.mark.needs_cc, pytest.mark.optimized]
EDGES = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1,
    -1,
    1e-45,
    -1e-45,
    1.17549435e-38,
    -1e-39,
    3.4028235e38,
    -3.4028235e38,
    88.72,
    88.73,
    -103.97,
    -104,
    -87.4,
    128,
    -149,
    -150,
    0.5,
    -0.5,
    1.5,
    2.5,
    8388607.5,
    2147483648.0,
    1048576.0,
    1e30,
]
EXACT = {
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "abs": np.abs,
    "sign": np.sign,
}


def _sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


FUNCTIONS = {  # name -> (float64, units in the last place)
    **{name: (f, 0.5) for name, f in EXACT.items()},
    "exp": (np.exp, 2),
    "exp2": (np.exp2, 2),
    "expm1": (np.expm1, 2),
    "log": (np.log, 2),
    "log2": (np.log2, 2),
    "log10": (np.log10, 2),
    "log1p": (np.log1p, 2),
    "sigmoid": (_sigmoid, 2),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2),
    "tanh": (np.tanh, 4),
    "erf": (np.vectorize(math.erf), 4),
    "sin": (np.sin, 4),
    "cos": (np.cos, 4),
    "atan": (np.arctan, 4),
}
PLAIN = ("-march=x86-64",) if platform.machine() == "x86_64" else ()
LIBRARIES = {"16 lanes": (16, ()), "8 lanes": (8, ()), "4 lanes": (4, PLAIN)}


def _samples() -> np.ndarray:
    bits = np.random.default_rng(0).integers(0, 2**32, 1 << 16, dtype=np.uint32).view(np.float32)
    dense = [np.linspace(-a, a, 1 << 15).astype(np.float32) for a in (1e-3, 2, 12, 110, 2000)]
    x = np.concatenate([bits, *dense, np.array(EDGES, np.float32)])
    return np.concatenate([x, np.zeros(-len(x) % 16, np.float32)])


def _loops(lanes: int) -> str:
    """For each function ``run_<name>``, which applies it to an array, after what it needs."""
    kind = f"f32x{lanes}"
    parts = [(name, "float32", lanes) for name in (*FUNCTIONS, "load", "store")]
    loops = [
        f"void run_{n}(const float *x, float *y, int64_t count);\n"
        f"void run_{n}(const float *x, float *y, int64_t count) {{\n"
        f"  for (int64_t i = 0; i < count; i += {lanes}) store_{kind}(y + i, {n}_{kind}(load_{kind}(x + i)));\n}}\n"
        for n in FUNCTIONS
    ]
    return "\n".join([PREAMBLE, *vector_support(parts), *loops])


def _library(lanes: int, flags, tmp_path):
    source = _loops(lanes)
    path = tmp_path / f"{lanes}.so"
    path.write_bytes(find_compiler().build(source, ("-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Wpedantic", *flags)))
    return ctypes.CDLL(str(path))


@pytest.fixture(scope="module", params=list(LIBRARIES))
def library(request, tmp_path_factory):
    return _library(*LIBRARIES[request.param], tmp_path_factory.mktemp("math"))


def _units(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """How far *got* is from *want* in units of the last place of the float32 next to *want*."""
    with np.errstate(all="ignore"):
        nearest = want.astype(np.float32)
        size = np.spacing(np.clip(np.abs(want), 1.17549435e-38, 3.4028234e38).astype(np.float32)).astype(np.float64)
        distance = np.abs(got.astype(np.float64) - want) / size
    equal = (np.isnan(got) & np.isnan(want)) | (got == nearest)
    return np.where(equal, 0, np.where(np.isnan(distance), np.inf, distance))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_as_near_as_it_promises(name, library):
    reference, allowed = FUNCTIONS[name]
    x = _samples()
    got = np.empty_like(x)
    getattr(library, f"run_{name}")(
        x.ctypes.data_as(ctypes.c_void_p), got.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(x))
    )
    with np.errstate(all="ignore"):
        units = _units(got, reference(x.astype(np.float64)))
    worst = int(np.argmax(units))
    assert units[worst] <= allowed, f"{name}({x[worst]!r}) = {got[worst]!r} is {units[worst]:.2f} units away"


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "tanh", "erf", "sqrt", "expm1", "log1p"])
def test_a_zero_keeps_its_sign(name, library):
    x = np.array([0.0, -0.0] * 8, np.float32)
    got = np.empty_like(x)
    getattr(library, f"run_{name}")(
        x.ctypes.data_as(ctypes.c_void_p), got.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(x))
    )
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))


@pytest.mark.parametrize("lanes", [16, 8, 4])
def test_no_function_has_undefined_behaviour_at_any_edge(lanes, tmp_path):
    bits = np.concatenate([np.array(EDGES, np.float32), -np.array(EDGES, np.float32), [np.float32(-1e-30), -0.3]])
    bits = np.resize(bits.astype(np.float32), 16 * (-(-len(bits) // 16))).view(np.uint32)
    calls = "".join(f"  run_{name}((const float *)x, y, {len(bits)});\n" for name in FUNCTIONS)
    (tmp_path / "edges.c").write_text(
        f"{_loops(lanes)}\nstatic const uint32_t x[] = {{{', '.join(map(str, bits))}}};\n"
        f"static float y[{len(bits)}];\nint main(void) {{\n{calls}  return 0;\n}}\n"
    )
    program = tmp_path / "edges"
    traps = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", "-fno-strict-aliasing"]
    built = [*find_compiler().command, "-O1", *traps, "-o", str(program), str(tmp_path / "edges.c"), "-lm"]
    subprocess.run(built, check=True, capture_output=True)
    assert subprocess.run([str(program)], check=False).returncode == 0
