"""Conversions of the floats of 16 bits and fewer from and to float32, as functions in C and in OpenCL C.

A format is a sign, an exponent and a fraction, and how it spends its last codes; the functions work on the bits of the
float32, so that every compiler and processor gives the same. Rounding is to nearest, ties to even, into what IEEE 754
calls subnormal too. Sources: IEEE 754-2019; "FP8 Formats for Deep Learning" (arXiv:2209.05433); the OCP specifications
of 8-bit floats and of microscaling formats; ``ml_dtypes``, to whose every code the functions are held, and whose
answers for NaN and overflow are taken.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.spelling import short_name
from byoc.ir.types import STORED, dtype_bytes

IEEE, FN, FNUZ, FINITE = "ieee", "fn", "fnuz", "finite"
BIAS = 127  # of float32


@dataclass(frozen=True)
class Format:
    """A float format: the bits of its exponent and of its fraction, its bias, and its *kind*.

    ``ieee`` has infinities and NaNs in its last exponent; ``fn`` a NaN of all ones alone; ``fnuz`` one NaN in the place
    of -0; ``finite`` numbers alone, of which the largest stands for what is beyond.
    """

    exponent: int
    fraction: int
    bias: int
    kind: str

    @property
    def magnitudes(self) -> int:
        """The codes without the sign, as a mask."""
        return (1 << (self.exponent + self.fraction)) - 1

    @property
    def infinity(self) -> int:
        """The first code that is no finite number, without the sign."""
        if self.kind == IEEE:
            return ((1 << self.exponent) - 1) << self.fraction
        return self.magnitudes + (self.kind != FN)


FORMATS: Mapping[str, Format] = {
    "float16": Format(5, 10, 15, IEEE),
    "bfloat16": Format(8, 7, 127, IEEE),
    "float8_e4m3fn": Format(4, 3, 7, FN),
    "float8_e4m3fnuz": Format(4, 3, 8, FNUZ),
    "float8_e5m2": Format(5, 2, 15, IEEE),
    "float8_e5m2fnuz": Format(5, 2, 16, FNUZ),
    "float4_e2m1fn": Format(2, 1, 1, FINITE),
}
POWER = "float8_e8m0fnu"  # a power of two without a sign: the exponent of a float32


@dataclass(frozen=True)
class Words:
    """What of a language the functions need: its integers, and lines that read a float's bits, and bits as a float.

    ``bits`` defines the constant ``bits`` of the float ``x``, ``number`` the constant ``number`` of the ``bits``;
    both are for numbers of 32 and of 64 bits. ``round`` is the function that rounds a float, ties to even.
    """

    types: Mapping[str, str]
    bits: str
    number: str
    round: str


def conversions(words: Words) -> Mapping[str, Callable[[str], str]]:
    """The functions that read bits and make them, by the name of the intrinsic, for the dtype of its argument."""
    found: dict[str, Callable[[str], str]] = {"bits": lambda source: _bits(source, words)}
    for dtype in ("float32", "float64"):
        found[f"{dtype}_of_bits"] = functools.partial(_of_bits, dtype, words)
    for dtype in (*FORMATS, POWER):
        found[f"to_{dtype}"] = functools.partial(_encoding, dtype, words)
        found[f"from_{dtype}"] = functools.partial(_decoding, dtype, words)
    return found


def spellings(floats: Sequence[str] = ("f32", "f64")) -> Mapping[tuple[str, str], str]:
    """How the functions of :func:`conversions` are called, for the table of a language."""
    names = [*(f"from_{d}" for d in (*FORMATS, POWER)), "float32_of_bits", "float64_of_bits"]
    return {
        **{(f"to_{d}", k): f"to_{d}_{{T}}({{0}})" for d in (*FORMATS, POWER) for k in floats},
        **{("bits", k): "bits_{T}({0})" for k in floats},
        **{(name, "uint"): f"{name}_{{T}}({{0}})" for name in names},
        **{(f"{d}_of_bits", "uint"): "{0}" for d in STORED},
    }


def _bits(source: str, words: Words) -> str:
    width = dtype_bytes(source) * 8
    line = words.bits.format(uint=words.types[f"uint{width}"])
    head = f"static inline {words.types[f'uint{width}']} bits_{short_name(source)}({words.types[source]} x) {{"
    return _function(head, [line, "return bits;"])


def _of_bits(dtype: str, words: Words, source: str) -> str:
    result = words.types[dtype]
    head = f"static inline {result} {dtype}_of_bits_{short_name(source)}({words.types[source]} bits) {{"
    return _function(head, [words.number.format(float=result), "return number;"])


def _decoding(dtype: str, words: Words, source: str) -> str:
    u, shown = words.types["uint32"], [words.number.format(float="float"), "return number;"]
    head = f"static inline float from_{dtype}_{short_name(source)}({words.types[source]} code) {{"
    if dtype == POWER:
        chosen = f"code == 0xff ? 0x7fc00000u : code == 0 ? 0x00400000u : ({u})code << 23"
        return _function(head, [f"const {u} bits = {chosen};", *shown])
    form = FORMATS[dtype]
    shift, width = 23 - form.fraction, form.exponent + form.fraction
    if form.bias == BIAS:
        return _function(head, [f"const {u} bits = ({u})code << {shift};", *shown])
    special = {
        IEEE: f"if (magnitude >= {_hex(form.infinity)}) bits = 0x7f800000u | magnitude << {shift};",
        FN: f"if (magnitude == {_hex(form.infinity)}) bits = 0x7fc00000u;",
        FNUZ: "if (code == 0x80) return NAN;",
    }
    least = f"(float)magnitude * 0x1p{1 - form.bias - form.fraction}f"
    lines = [
        f"const {u} magnitude = code & {_hex(form.magnitudes)}, sign = ({u})(code >> {width} & 1) << 31;",
        f"{u} bits = (magnitude << {shift}) + {_hex((BIAS - form.bias) << 23)};",
        *([special[form.kind]] if form.kind in special else []),
        f"if (magnitude < {1 << form.fraction}) return sign ? -({least}) : {least};",
        "bits |= sign;",
    ]
    return _function(head, [*lines, *shown])


def _encoding(dtype: str, words: Words, source: str) -> str:
    u, stored = words.types["uint32"], words.types[STORED[dtype]]
    read = words.bits.format(uint=u)
    if source == "float64":
        head = f"static inline {stored} to_{dtype}_f64(double wide) {{"
        return _function(head, [*_to_odd(words), *_encoded(dtype, u, stored, words.round)])
    return _function(
        f"static inline {stored} to_{dtype}_f32(float x) {{", [read, *_encoded(dtype, u, stored, words.round)]
    )


def _to_odd(words: Words) -> list[str]:
    """The float32 ``x`` of the float64 ``wide``, rounded to odd, and its ``bits``: to round it again rounds once."""
    u = words.types["uint32"]
    return [
        "float x = (float)wide;",
        f"{words.bits.format(uint=u).replace('const ', '')}",
        "const double near = x < 0 ? -(double)x : (double)x, size = wide < 0 ? -wide : wide;",
        "if (near != size && size == size) bits = (near > size ? bits - 1 : bits) | 1;",
        words.number.format(float="float"),
        "x = number;",
    ]


def _encoded(dtype: str, u: str, stored: str, rounding: str) -> list[str]:
    """The lines that return the code of the float ``x``, whose bits are ``bits``."""
    if dtype == POWER:  # without a 0; halves away from it
        return [
            "if (bits == 0 || bits >= 0x7f800000u) return 0xff;",
            "if (bits < 0x00800000u) return bits > 0x00400000u;",
            f"return ({stored})(bits >= 0x7f400000u ? 0xff : (bits + 0x00400000u) >> 23);",
        ]
    form = FORMATS[dtype]
    shift, width = 23 - form.fraction, form.exponent + form.fraction
    tie = _hex((1 << (shift - 1)) - 1)
    if form.bias == BIAS:
        return [
            f"const {u} nearest = bits + {tie} + (bits >> {shift} & 1);",
            f"return ({stored})((x != x ? bits | 0x400000u : nearest) >> {shift});",
        ]
    nan = {
        IEEE: f"{_hex(form.infinity | 1 << (form.fraction - 1))} | sign",
        FN: f"{_hex(form.infinity)} | sign",
        FNUZ: "0x80",
        FINITE: f"sign ^ {_hex(1 << width)}",
    }[form.kind]
    lines = [
        f"const {u} magnitude = bits & 0x7fffffffu, sign = bits >> 31 << {width};",
        f"if (magnitude > 0x7f800000u) return ({stored})({nan});",
        f"{u} code;",
        f"if (magnitude >= {_hex((BIAS + 1 - form.bias) << 23)}) {{",
        f"  const {u} moved = magnitude - {_hex((BIAS - form.bias) << 23)};",
        f"  code = (moved + {tie} + (moved >> {shift} & 1)) >> {shift};",
        "} else {",
        f"  code = ({u}){rounding}((x < 0 ? -x : x) * 0x1p{form.bias + form.fraction - 1}f);",
        "}",
    ]
    if form.kind == FNUZ:
        return [
            *lines,
            f"if (code > {_hex(form.magnitudes)}) return 0x80;",
            f"return ({stored})(code == 0 ? 0 : code | sign);",
        ]
    beyond = form.magnitudes if form.kind == FINITE else form.infinity
    return [*lines, f"if (code > {_hex(form.infinity - 1)}) code = {_hex(beyond)};", f"return ({stored})(code | sign);"]


def _hex(number: int) -> str:
    return f"{number:#x}u"


def _function(head: str, lines: Sequence[str]) -> str:
    return "\n".join([head, *(f"  {line}" for text in lines for line in text.split("\n")), "}"])
