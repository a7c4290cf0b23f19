"""Functions of float vectors: no branches, the vector extension alone, so that they serve every width of register.

float32 is within 2 units in the last place for exponentials, logarithms and the sigmoid, and within 4 for the rest; a
NaN stays one, infinities, zeros and denormals give what C's functions give (``tests/codegen/test_c_vector_math.py``).
Sources: the reductions of Cody and Waite; the logarithm and the sine of S. Moshier's Cephes; the error function of
N. Juffa. Other functions, and those of float64, go lane by lane through C's library. ``vectors.py`` says what the
names with ``@`` stand for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def _polynomial(x: str, coefficients: Sequence[float]) -> str:
    """Horner's scheme, the highest power first."""
    text = f"{coefficients[0]!r}f"
    for k, c in enumerate(coefficients[1:]):
        left = f"({text})" if k else text
        text = f"{left} * {x} {'-' if c < 0 else '+'} {abs(c)!r}f"
    return text


def _define(name: str, arguments: str, *body: str) -> str:
    lines = (line if line.startswith("#") else f"  {line}" for line in body)
    return "\n".join([f"static inline @V {name}_@V({arguments}) {{", *lines, "}"])


_SQRT = _define("sqrt", "@V x", "for (int k = 0; k < @N; ++k) x[k] = sqrt@f(x[k]);", "return x;")
_RSQRT = _define("rsqrt", "@V x", "return 1 / sqrt_@V(x);")
_ABS = _define("abs", "@V x", "return (@V)((@I)x & INT@B_MAX);")
_ROUND = _define("round", "@V x", "for (int k = 0; k < @N; ++k) x[k] = rint@f(x[k]);", "return x;")
_SIGN_OF = _define(  # the bits of x that are not its magnitude
    "sign_of", "@V x", "return (@V)((@I)x ^ (@I)abs_@V(x));"
)
_WITH_SIGN = _define("with_sign", "@V x, @V sign", "return (@V)((@I)x | (@I)sign_of_@V(sign));")
_FLOOR = _define("floor", "@V x", "const @V r = round_@V(x);", "return with_sign_@V(select_@V(r > x, r - 1, r), x);")
_CEIL = _define("ceil", "@V x", "const @V r = round_@V(x);", "return with_sign_@V(select_@V(r < x, r + 1, r), x);")
_TRUNC = _define(
    "trunc", "@V x", "const @V a = abs_@V(x), r = round_@V(a);", "return with_sign_@V(select_@V(r > a, r - 1, r), x);"
)
_SIGN = _define("sign", "@V x", "return select_@V(x != x, x, __builtin_convertvector((x < 0) - (x > 0), @V));")
_INT_SIGN = _define("sign", "@V x", "return (@V)((x < 0) - (x > 0));")
_UINT_SIGN = _define("sign", "@V x", "return (@V)-(x != 0);")
_INT_ABS = _define("abs", "@V x", "return select_@V(x < 0, -x, x);")

_SQUARE = _define("square", "@V x", "return x * x;")
_CUBE = _define("cube", "@V x", "return x * x * x;")
_ISNAN = "static inline @I isnan_@V(@V x) {\n  return x != x;\n}"
_ISINF = "static inline @I isinf_@V(@V x) {\n  return abs_@V(x) == INFINITY;\n}"
_ISFINITE = "static inline @I isfinite_@V(@V x) {\n  return abs_@V(x) < INFINITY;\n}"

# 2**n for n from -149 to 128, as two factors, of which neither overflows
_POWERS = (
    "const @I low = n >> 1;",
    "const @V first = (@V)((@U)(low + 127) << 23), second = (@V)((@U)(n - low + 127) << 23);",
)
# of (exp(r) - 1 - r) / r**2
_EXP_REST = (0.000199089043, 0.00139345442, 0.00833328411, 0.0416664568, 0.166666668, 0.500000001)
_REDUCED = (  # x = n * ln 2 + r, |r| <= ln 2 / 2; adding 1.5 * 2**23 rounds to an integer
    "const @V turns = x * 1.44269504f + 12582912.0f;",
    "const @V whole = turns - 12582912.0f;",
    "const @I n = (@I)turns - 0x4b400000;",
    "const @V r = (x - whole * 0.693145752f) - whole * 1.42860677e-6f;",
)
_SCALED = _define(
    "scaled",
    "@V x, @V whole /* a number from -149 to 128 */",
    "const @I n = (@I)(whole + 12582912.0f) - 0x4b400000;",
    *_POWERS,
    "return x * first * second;",
)
_EXP = _define(
    "exp",
    "@V x",
    "x = min_number_@V(89.0f, max_number_@V(-104.0f, x));",
    *(line for line in _REDUCED if "n = (@I)" not in line),
    f"const @V p = ({_polynomial('r', _EXP_REST)}) * (r * r) + r + 1.0f;",
    "return scaled_@V(p, whole);",
)
_EXP2 = _define(
    "exp2",
    "@V x",
    "x = min_number_@V(129.0f, max_number_@V(-150.0f, x));",
    "const @V turns = x + 12582912.0f;",
    "const @V f = x - (turns - 12582912.0f);",
    "const @I n = (@I)turns - 0x4b400000;",
    "const @V r = f * 0.693147182f - f * 1.90465421e-9f;",
    f"const @V p = ({_polynomial('r', _EXP_REST)}) * (r * r) + r + 1.0f;",
    *_POWERS,
    "return p * first * second;",
)
_EXPM1 = _define(
    "expm1",
    "@V v",
    "@V x = min_number_@V(89.0f, max_number_@V(-18.0f, v));",
    *_REDUCED,
    f"const @V p = ({_polynomial('r', _EXP_REST[:-1])}) * r * (r * r) + 0.5f * (r * r) + r;",
    "const @V scale = (@V)((@U)(n + 126) << 23); /* half of 2**n, which may overflow where the result does not */",
    "return select_@V(abs_@V(v) < 5.96046448e-8f, v, (scale * p + (scale - 0.5f)) * 2.0f);",
)
# x = 2**n * (1 + f), 1 + f from sqrt(1/2) to sqrt(2); denormals are made larger first
_LOG_SPLIT = (
    "const @I small = x < 1.17549435e-38f;",
    "const @V scaled = select_@V(small, x * 8388608.0f, x);",
    "const @U bits = (@U)scaled - 0x3f3504f3; /* which wraps for what is below 0 */",
    "const @I exponent = (@I)bits >> 23;",
    "const @V f = (@V)(bits - ((@U)exponent << 23) + 0x3f3504f3) - 1.0f;",
    "const @V n = __builtin_convertvector(exponent - (small & 23), @V);",
)
_LOG_REST = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_LOG_SERIES = ("const @V z = f * f;", f"const @V tail = f * z * ({_polynomial('f', _LOG_REST)});")
_LOG_ENDS = (  # of 0, of infinity, of a NaN and of what is below 0
    "const @V end = select_@V(x == 0.0f, splat_@V(-INFINITY), select_@V(x > 0.0f, x, splat_@V(NAN)));",
    "return select_@V((x > 0.0f) & (x < INFINITY), result, select_@V(x != x, x, end));",
)
_LOG = _define(
    "log",
    "@V x",
    *_LOG_SPLIT,
    *_LOG_SERIES,
    "const @V result = ((tail + n * 1.42860677e-6f) - 0.5f * z + f) + n * 0.693145752f;",
    *_LOG_ENDS,
)
_LOG2 = _define(  # 1 / ln 2 is 1 + 0.442695...
    "log2",
    "@V x",
    *_LOG_SPLIT,
    *_LOG_SERIES,
    "const @V low = tail - 0.5f * z;",
    "const @V result = ((low * 0.44269504f + f * 0.44269504f) + low + f) + n;",
    *_LOG_ENDS,
)
_LOG10 = _define(  # 1 / ln 10 and log10 2, each in two parts
    "log10",
    "@V x",
    *_LOG_SPLIT,
    *_LOG_SERIES,
    "const @V low = tail - 0.5f * z;",
    "const @V fine = (low + f) * 7.00731903e-4f + low * 0.43359375f;",
    "const @V result = (fine + n * 2.48745642e-4f) + f * 0.43359375f + n * 0.30078125f;",
    *_LOG_ENDS,
)
_LOG1P = _define(  # log(1 + x) with what the rounding of 1 + x took away
    "log1p",
    "@V x",
    "const @V u = 1.0f + x;",
    "const @V lost = select_@V((u > 0.0f) & (u < INFINITY), (x - (u - 1.0f)) / u, (@V){0});",
    "return select_@V(abs_@V(x) < 5.96046448e-8f, x, log_@V(u) + lost);",
)
_SIGMOID = _define(  # where scaling is one instruction, 1 / (1 + p * 2**n) as 2**-n / (2**-n + p): neither overflows
    "sigmoid",
    "@V x",
    "#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__) && @N == 16",
    "x = min_number_@V(104.0f, max_number_@V(-87.0f, -x));",
    *(line for line in _REDUCED if "n = (@I)" not in line),
    f"const @V p = ({_polynomial('r', _EXP_REST)}) * (r * r) + r + 1.0f;",
    "return scaled_@V(1.0f / (p + scaled_@V(splat_@V(1.0f), -whole)), -whole);",
    "#else",
    "const @V e = exp_@V(-abs_@V(x));",
    "const @V sum = 1.0f + e, lost = e - (sum - 1.0f); /* by the rounding of the sum */",
    "const @V q = select_@V(x < 0.0f, e, splat_@V(1.0f)) / sum;",
    "return q - q * lost;",
    "#endif",
)
_TANH = _define(
    "tanh",
    "@V x",
    "const @V t = expm1_@V(2.0f * min_number_@V(10.0f, abs_@V(x)));",
    "return with_sign_@V(t / (t + 2.0f), x);",
)
_ERF = _define(
    "erf",
    "@V x",
    "const @V t = abs_@V(x), s = x * x;",
    "const @V a = -1.72853470e-5f * t + 3.83197126e-4f, b = -3.88396438e-3f * t + 2.42546219e-2f;",
    "@V r = ((a * s + b) * t - 1.06777877e-1f) * t - 6.34846687e-1f;",
    "r = (r * t - 1.28717512e-1f) * t - t;",
    f"const @V near = ({_polynomial('s', (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1))}) * s;",
    "const @V inner = ((near - 3.76125336e-1f) * s + 1.28379166e-1f) * x + x;",
    "return select_@V(t > 0.927734375f, with_sign_@V(1.0f - exp_@V(r), x), inner);",
)


def _circular(name: str, quarter: int) -> str:
    """Sine or cosine, by quarters of a turn: *quarter* is how far ahead of the sine it is."""
    return _define(
        name,
        "@V x",
        "@V r;",
        "@I n;",
        "for (int k = 0; k < @N; ++k) { /* pi / 2 in two parts: exact while n has 20 bits */",
        "  const double d = x[k], whole = (d * 0.63661977236758138 + 6755399441055744.0) - 6755399441055744.0;",
        "  r[k] = (float)((d - whole * 1.5707963267341256) - whole * 6.0771005065061922e-11);",
        "  n[k] = (int32_t)(whole < 1048576 && whole > -1048576 ? whole : 0);",
        "}",
        "const @V s = r * r;",
        f"const @V sine = ({_polynomial('s', (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1))}) * s * r + r;",
        f"const @V cosine = ({_polynomial('s', (2.443315711e-5, -1.388731625e-3, 4.166664568e-2))}) * s * s"
        " - 0.5f * s + 1.0f;",
        f"const @I turn = n{f' + {quarter}' if quarter else ''};",
        "const @V value = select_@V((turn & 1) != 0, cosine, sine);",
        "@V result = (@V)((@U)value ^ ((@U)(turn & 2) << 30));",
        "int32_t any = 0;",
        "for (int k = 0; k < @N; ++k) any |= !(fabsf(x[k]) < 1048576.0f);",
        "if (any)",
        "  for (int k = 0; k < @N; ++k)",
        f"    if (!(fabsf(x[k]) < 1048576.0f)) result[k] = {name}f(x[k]);",
        "return result;",
    )


# those whose products and sums the compiler contracts; their bounds are proved so
POLYNOMIALS = frozenset(
    ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sigmoid", "scaled", "tanh", "erf", "sin", "cos"]
)
MATH: Mapping[tuple[str, str], str] = {
    **{
        (name, kind): text
        for kind in ("f32", "f64")
        for name, text in (
            ("sqrt", _SQRT),
            ("rsqrt", _RSQRT),
            ("abs", _ABS),
            ("round", _ROUND),
            ("sign_of", _SIGN_OF),
            ("with_sign", _WITH_SIGN),
            ("floor", _FLOOR),
            ("ceil", _CEIL),
            ("trunc", _TRUNC),
            ("sign", _SIGN),
            ("square", _SQUARE),
            ("cube", _CUBE),
            ("isnan", _ISNAN),
            ("isinf", _ISINF),
            ("isfinite", _ISFINITE),
        )
    },
    ("abs", "int"): _INT_ABS,
    ("sign", "int"): _INT_SIGN,
    ("sign", "uint"): _UINT_SIGN,
    ("exp", "f32"): _EXP,
    ("exp2", "f32"): _EXP2,
    ("expm1", "f32"): _EXPM1,
    ("log", "f32"): _LOG,
    ("log2", "f32"): _LOG2,
    ("log10", "f32"): _LOG10,
    ("log1p", "f32"): _LOG1P,
    ("sigmoid", "f32"): _SIGMOID,
    ("scaled", "f32"): _SCALED,
    ("tanh", "f32"): _TANH,
    ("erf", "f32"): _ERF,
    ("sin", "f32"): _circular("sin", 0),
    ("cos", "f32"): _circular("cos", 1),
}
