"""What stands before a kernel's text: the sizes and types of its tensors, its attributes, and its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from byoc.codegen.c.region_source import dim_text, size_names, size_text
from byoc.codegen.opencl.device.language import TYPES as OPENCL_TYPES
from byoc.runtime.core.signature import TensorSpec

_READ = re.compile(r"\bATTR_(\w+)")
_DEFINED = re.compile(r"^#define (\w+)", re.MULTILINE)


def read_attributes(text: str) -> frozenset[str]:
    """The attributes that a source looks at; ``ATTR_strides_0`` is of ``strides``."""
    found = named_in(text)
    return frozenset({*found, *map(numbered, found)})


def named_in(text: str) -> list[str]:
    """What stands behind ``ATTR_`` in a source, in order, once each."""
    return list(dict.fromkeys(_READ.findall(text)))


def numbered(name: str) -> str:
    """The attribute of which ``strides_0`` is an element; *name* itself where it ends in no number."""
    before, _, last = name.rpartition("_")
    return before if before and last.isdigit() else name


def heading(
    name: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    attributes: Iterable[tuple[str, object]],
    types: Mapping[str, str],
) -> str:
    """The macros for one call, whose function is called *name*; sizes are spelled by :func:`size_text`.

    Of *attributes* of one name the first counts.
    """
    lines = [f"#define KERNEL {name}", f"#define UNIQUE(helper) {name}_##helper"]
    for kind, specs in (("IN", inputs), ("OUT", outputs)):
        for k, spec in enumerate(specs):
            lines.append(f"#define {kind}{k}_TYPE {types[spec.dtype]}")
            lines.append(f"#define {kind}{k}_NDIM {len(spec.shape)}")
            lines.append(f"#define {kind}{k}_SIZE {size_text(spec)}")
            lines += [f"#define {kind}{k}_DIM{axis} {dim_text(d)}" for axis, d in enumerate(spec.shape)]
    kind = "const long" if types is OPENCL_TYPES else "int64_t"
    parameters = "".join(f", {kind} {dim_text(d)}" for d in size_names([*inputs, *outputs]))
    return "\n".join([*lines, f"#define SIZES {parameters}".rstrip(), *_attribute_lines(attributes), ""])


def between(text: str) -> str:
    """Takes back what *text* defines, so that the next kernel begins anew."""
    return "".join(f"#undef {name}\n" for name in dict.fromkeys(_DEFINED.findall(text)))


def _attribute_lines(attributes: Iterable[tuple[str, object]]) -> list[str]:
    lines: dict[str, str] = {}
    for name, value in attributes:
        for key, text in _spelled(name, value):
            lines.setdefault(key, text)
    return [f"#define ATTR_{key} {text}" for key, text in lines.items()]


def _spelled(name: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, (list, tuple)):
        parts = [_scalar(v) for v in value]
        if any(p is None for p in parts):
            return []
        items = [(f"{name}_{k}", str(p)) for k, p in enumerate(parts)]
        return [(name, "{" + ", ".join(text for _, text in items) + "}"), *items]
    text = _scalar(value)
    return [] if text is None else [(name, text)]


def _scalar(value: object) -> str | None:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        special = {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}
        return special.get(repr(value), f"{value!r}")
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return None
