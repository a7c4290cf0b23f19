"""The vector types and functions that a source uses, in GCC's vector extension, which clang has too.

A type is named by its elements and their number (``f32x16``); a function by what it does and the type
(``exp_f32x16``). A definition is a template over the type: ``@V`` is the vector, ``@S`` its scalar, ``@I`` the vector
of signed integers of the same width, which is also a mask (all bits of a lane set or none), ``@U`` that of unsigned
ones, whose arithmetic may wrap, ``@T`` a scalar of ``@I``, ``@N`` the number of lanes, ``@B`` the bits of one, ``@f``
the suffix of C's functions and literals. What a definition mentions is defined before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from byoc.codegen.c.language import narrow
from byoc.codegen.c.language.spellings import FUNCTIONS, TYPES
from byoc.codegen.c.toolchain.unit_flags import rounded
from byoc.codegen.c.vectors.math import MATH
from byoc.codegen.kernel.spelling import kind_of, short_name
from byoc.errors import InternalError
from byoc.ir.types import dtype_bytes

_NO_TEMPLATES: Mapping[tuple[str, str], str] = {}
VectorPart = tuple[str, str, int]  # a function ("" for the type itself), a dtype, lanes
_NAME = re.compile(r"\b(?:([a-z][a-z0-9_]*)_)?([bfiu](?:8|16|32|64))x(\d+)\b")
_DTYPES = {short_name(d): d for d in TYPES}

_LOAD = """static inline @V load_@V(const @S *place) {
  @V v;
  memcpy(&v, place, sizeof v);
  return v;
}"""
_STORE = """static inline void store_@V(@S *place, @V v) {
  memcpy(place, &v, sizeof v);
}"""
_LOAD_FIRST = """/* The first count elements, and 0 in the lanes beyond them, which are not read. */
static inline @V load_first_@V(const @S *place, int count) {
  @V v = {0};
  memcpy(&v, place, (size_t)count * sizeof *place);
  return v;
}"""
_STORE_FIRST = """static inline void store_first_@V(@S *place, @V v, int count) {
  memcpy(place, &v, (size_t)count * sizeof *place);
}"""
_SPLAT = """static inline @V splat_@V(@S x) {
  return x - (@V){0};
}"""
_SELECT = """static inline @V select_@V(@I mask, @V a, @V b) {
  return (@V)(((@I)a & mask) | ((@I)b & ~mask));
}"""
_FOLD = """static inline @S {name}_@V(@V v) {{
#if defined(__clang__) || __GNUC__ >= 12
@H  return v[0];
#else
  @S part[@N];
  memcpy(part, &v, sizeof v);
  for (int width = @N / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) {{
      const @S a = part[k], b = part[k + width];
      part[k] = {step};
    }}
  return part[0];
#endif
}}"""
# no loops over lanes here: GCC leaves these in memory where the vectors are the sums of a tile
_EXTREME = """static inline @V {name}_@V(@V a, @V b) {{
  return {result};
}}"""
# one number that is no NaN beside x: then the comparison alone lets a NaN of x through
_BOUND = """static inline @V {name}_number_@V(@S number, @V x) {{
  return {chosen}_@V(splat_@V(number), x);
}}"""
_CHOSEN = """static inline @V {name}_@V(@V a, @V b) {{
  return select_@V(a {sign} b, a, b);
}}"""
# what gcc does not find by itself: one instruction with just that meaning
_ON_X86 = """static inline @V {name}_@V({arguments}) {{
#if defined({feature}) && defined(__GNUC__) && !defined(__clang__)
  return __builtin_ia32_{call};
#else
{otherwise}
#endif
}}"""
_BY_LANES = """static inline @V {name}_@V(@V x) {{
  for (int k = 0; k < @N; ++k) x[k] = {call};
  return x;
}}"""


# of what several products read: GCC has each of few readers load it again, and two loads a cycle then are the limit
_HELD = """static inline @V held_@V(@V v) {
  return v;
}"""
_HELD_ON_X86 = """static inline @V held_@V(@V v) {{
#if defined({feature}) && defined(__GNUC__) && !defined(__clang__)
  __asm__("" : "+v"(v));
#endif
  return v;
}}"""


def _fold(name: str, step: str) -> str:
    return _FOLD.format(name=name, step=step)


def _halvings(function: str, lanes: int) -> str:
    """The lines that fold the upper half of the lanes that count into the lower one, until one is left."""
    lines, width = [], lanes // 2
    symbol = {"sum": "v + {0}", "prod": "v * {0}", "fold_min": "min_@V(v, {0})", "fold_max": "max_@V(v, {0})"}
    while width:
        places = ", ".join(str((k + width) % lanes) for k in range(lanes))
        upper = f"__builtin_shufflevector(v, v, {places})"
        lines.append(f"  v = {symbol[function].format(upper)};\n")
        width //= 2
    return "".join(lines)


_SIGNS = {"lesser": "<", "greater": ">"}  # a where it is so, else b
_CHOICE = {"min": "lesser", "max": "greater"}


def _extreme(name: str, floats: bool) -> str:
    chosen = f"{_CHOICE[name]}_@V(a, b)"
    return _EXTREME.format(name=name, result=f"select_@V(a != a, a, {chosen})" if floats else chosen)


_FLOATS, _INTS = ("f32", "f64"), ("int", "uint")
_ANY = (*_FLOATS, *_INTS)
_TEMPLATES: Mapping[tuple[str, str], str] = {
    **{
        (n, k): t
        for k in (*_ANY, "bf16")
        for n, t in (
            ("load", _LOAD),
            ("store", _STORE),
            ("load_first", _LOAD_FIRST),
            ("store_first", _STORE_FIRST),
            ("splat", _SPLAT),
            ("held", _HELD),
            ("select", _SELECT),
        )
    },
    **{(n, k): t for k in _ANY for n, t in (("sum", _fold("sum", "a + b")), ("prod", _fold("prod", "a * b")))},
    **{(n, k): _extreme(n, k in _FLOATS) for k in _ANY for n in _CHOICE},
    **{(n, k): _CHOSEN.format(name=n, sign=s) for k in _ANY for n, s in _SIGNS.items()},
    **{("rounded", k): rounded("@V", "@V") for k in _FLOATS},
    **{(f"{n}_number", k): _BOUND.format(name=n, chosen=c) for k in _ANY for n, c in _CHOICE.items()},
    **{
        (f"fold_{n}", k): _fold(f"fold_{n}", f"a {s} b{' || a != a' if k in _FLOATS else ''} ? a : b")
        for k in _ANY
        for n, s in (("min", "<"), ("max", ">"))
    },
    **MATH,
    **narrow.VECTORS,
}


_REGISTERS = ((16, "__SSE4_1__"), (32, "__AVX__"), (64, "__AVX512F__"))  # bytes, and the feature that has them


def _on_x86() -> dict[VectorPart, str]:
    """Functions of a register's width that are one instruction: its builtin, where the compiler has it."""
    result = {
        ("held", dtype, size // dtype_bytes(dtype)): _HELD_ON_X86.format(feature=feature)
        for dtype in TYPES
        if has_vector_function("held", dtype)
        for size, feature in _REGISTERS
    }
    for dtype, letter in (("float32", "s"), ("float64", "d")):
        for size, feature in _REGISTERS:
            lanes = size // dtype_bytes(dtype)
            every = f"({'uint16_t' if lanes == 16 else 'uint8_t'})-1, 4"  # all lanes; rounded as everything is
            wide, width = size == 64, "256" if size == 32 else ""
            calls = {
                chosen: f"{name}p{letter}512_mask(a, b, b, {every})" if wide else f"{name}p{letter}{width}(a, b)"
                for name, chosen in _CHOICE.items()
            }
            calls |= {
                "sqrt": f"sqrtp{letter}512_mask(x, x, {every})" if wide else f"sqrtp{letter}{width}(x)",
                "round": f"rndscalep{letter}_mask(x, 4, x, {every})" if wide else f"roundp{letter}{width}(x, 4)",
            }
            if wide:  # where a is a NaN it stays
                kind = "(uint16_t)" if lanes == 16 else "(uint8_t)"
                numbers = f"__builtin_ia32_cmpp{letter}512_mask(a, a, 7, {every})"
                calls["min"] = f"minp{letter}512_mask(a, b, a, {kind}{numbers}, 4)"
                calls["max"] = f"maxp{letter}512_mask(a, b, a, {kind}{numbers}, 4)"
            if wide and letter == "s":
                calls["scaled"] = f"scalefps512_mask(x, whole, x, {every})"
            for name, call in calls.items():
                body = _TEMPLATES[name, kind_of(dtype)].splitlines()
                result[name, dtype, lanes] = _ON_X86.format(
                    name=name,
                    feature=feature,
                    call=call,
                    otherwise="\n".join(body[1:-1]),
                    arguments=_ARGUMENTS.get(name, "@V x"),
                )
    return result


_ARGUMENTS = {**dict.fromkeys((*_SIGNS, *_CHOICE), "@V a, @V b"), "scaled": "@V x, @V whole"}


def vector_name(dtype: str, lanes: int) -> str:
    """The name of a vector type: ``f32x16``."""
    return f"{short_name(dtype)}x{lanes}"


def mask_dtype(dtype: str) -> str:
    """The signed integers as wide as *dtype*: the elements of a mask over it."""
    return f"int{8 * dtype_bytes(dtype)}"


def has_vector_function(name: str, dtype: str) -> bool:
    """Whether :func:`vector_support` can define *name* for vectors of *dtype*."""
    return _template(name, dtype) is not None


def _template(name: str, dtype: str) -> str | None:
    """The definition of *name*: our own, or C's function of that name lane by lane."""
    kind = kind_of(dtype)
    template = _TEMPLATES.get((name, kind))
    spelling = FUNCTIONS.get((name, kind)) if kind in _FLOATS else None
    if template is None and spelling is not None and "{T}" not in spelling and "{1}" not in spelling:
        template = _BY_LANES.format(name=name, call=spelling.format("x[k]"))
    return template


_X86 = _on_x86()


def vector_support(parts: Sequence[VectorPart], own: Mapping[tuple[str, str], str] = _NO_TEMPLATES) -> list[str]:
    """The definitions for *parts* and for all that these mention, each after what it needs.

    *own* templates, by the functions' names and the kind of their elements, stand in the place of C's.
    """
    texts: dict[VectorPart, str] = {}
    pending = [(part, False) for part in reversed(parts)]
    while pending:
        part, expanded = pending.pop()
        if part in texts:
            continue
        text = _definition(part, own)
        if expanded:
            texts[part] = text
            continue
        pending.append((part, True))
        needs = [_part(m) for m in _NAME.finditer(text)]
        pending.extend((p, False) for p in reversed(needs) if p != part)
    return list(texts.values())


def _part(match: re.Match[str]) -> VectorPart:
    return match[1] or "", _DTYPES[match[2]], int(match[3])


def _definition(part: VectorPart, own: Mapping[tuple[str, str], str]) -> str:
    function, dtype, lanes = part
    if not function:
        size = lanes * dtype_bytes(dtype)
        return f"typedef {TYPES[dtype]} {vector_name(dtype, lanes)} __attribute__((vector_size({size})));"
    template = own.get((function, kind_of(dtype))) or _X86.get(part) or _template(function, dtype)
    if template is None:
        raise InternalError(f"there is no function {function} for vectors of {dtype}")
    if "@H" in template:
        template = template.replace("@H", _halvings(function, lanes))
    integer = mask_dtype(dtype)
    fields = {
        "@V": vector_name(dtype, lanes),
        "@I": vector_name(integer, lanes),
        "@U": vector_name(f"u{integer}", lanes),
        "@S": TYPES[dtype],
        "@T": TYPES[integer],
        "@N": str(lanes),
        "@B": str(8 * dtype_bytes(dtype)),
        "@f": "f" if dtype == "float32" else "",
    }
    return re.sub("@[VIUSTNBf]", lambda m: fields[m[0]], template)
