"""The vector types that a source uses, and their loads, stores and sums: GCC's vector extension, which clang has."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.c.language import TYPES
from byoc.codegen.kernel.spelling import short_name
from byoc.ir.types import dtype_bytes

_SUM = """static inline {scalar} sum_{name}({name} v) {{
  {scalar} part[{lanes}];
  memcpy(part, &v, sizeof v);
  for (int width = {half}; width > 0; width /= 2)
    for (int k = 0; k < width; ++k)
      part[k] += part[k + width];
  return part[0];
}}"""
_TYPE = """typedef {scalar} {name} __attribute__((vector_size({bytes})));"""
_MEMORY = """static inline {name} load_{name}(const {scalar} *place) {{
  {name} v;
  memcpy(&v, place, sizeof v);
  return v;
}}

static inline void store_{name}({scalar} *place, {name} v) {{
  memcpy(place, &v, sizeof v);
}}"""


def vector_support(vectors: Sequence[tuple[str, int]]) -> list[str]:
    """The definitions for the vector types *vectors*, as ``(dtype, lanes)``; static inline, so unused ones are free."""
    parts: list[str] = []
    for dtype, lanes in vectors:
        fields = {
            "scalar": TYPES[dtype], "name": f"{short_name(dtype)}x{lanes}", "lanes": lanes, "half": lanes // 2,
            "bytes": lanes * dtype_bytes(dtype),
        }
        parts += [text.format(**fields) for text in (_TYPE, _MEMORY, _SUM)]
    return parts
