"""Dimensions in attributes of operators: a number, ``?name`` or ``?`` each."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import TypeInferenceError
from byoc.ir.types import Any, Dim


def named_dim(text: str) -> Dim:
    """A dimension as the attribute has it. Raises TypeInferenceError for another text."""
    if text.startswith("?"):
        return Any(text[1:])
    if not text.isascii() or not text.isdigit():
        raise TypeInferenceError(f"a dimension is a number, ?name or ?, got {text!r}")
    return int(text)


def dim_texts(shape: Sequence[Dim]) -> tuple[str, ...]:
    """Dimensions as an attribute has them."""
    return tuple(f"?{d.name}" if isinstance(d, Any) else str(d) for d in shape)
