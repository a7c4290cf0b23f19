"""How the atoms of the text format are written: names, strings, numbers, attribute values and spans.

Invariant: ``byoc.relay.text.parser`` reads each of them back to the same value. Names that are not plain identifiers
are quoted as JSON strings. Source: Relay's text format 0.0.5; quoted names, named dimensions, ``#k`` and span
comments are ours.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable

import numpy as np

from byoc.ir.span import AnySpan, Span

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
OP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")
SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SPAN_NAME = re.compile(r"[A-Za-z0-9_./@$-]+")
KEYWORDS = frozenset(
    ["fn", "def", "let", "if", "else", "free_var", "True", "False", "ref", "ref_read", "ref_write", "match"]
)
# dtype -> what follows a literal of that dtype; the dtypes that have literals at all
LITERAL_SUFFIX = {
    "int32": "",
    "int8": "i8",
    "int16": "i16",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float32": "f",
    "float16": "f16",
    "float64": "f64",
}
_AS_IT_IS, _ESCAPED = json.JSONEncoder(ensure_ascii=False), json.JSONEncoder()


def quoted(text: str, in_comment: bool = False) -> str:
    """*text* as a JSON string on one line; inside a comment nothing in it can end the comment."""
    out = (_AS_IT_IS if text.isprintable() else _ESCAPED).encode(text)
    return out.replace("/", "\\/") if in_comment and "*" in out else out


def name_text(name: str) -> str:
    """The name of a variable or a global as it follows ``%`` or ``@``."""
    return name if NAME.fullmatch(name) else quoted(name)


def key_text(name: str) -> str:
    """The name of an attribute."""
    return name if SIMPLE.fullmatch(name) else quoted(name)


def op_text(name: str) -> str:
    """The name of an operator; quoted where it could be read as something else."""
    return name if OP_NAME.fullmatch(name) and name not in KEYWORDS and name != "meta" else quoted(name)


def number_text(value: float) -> str:
    """A float in the shortest digits that read back to it, without a trailing ``.0``: ``0.5``, ``1e-05``, ``6``."""
    text = str(value)
    return text[:-2] if text.endswith(".0") else text


def scalar_text(array: np.ndarray, dtype: str) -> str | None:
    """The literal of a 0-d array, or None where there is no exact literal and the metadata section must hold it."""
    if dtype == "bool":
        return "True" if array.item() else "False"
    if dtype not in LITERAL_SUFFIX:
        return None
    if dtype.startswith("float"):
        value = array.dtype.type(array.item())  # numpy's own number: it prints the digits of its width
        return number_text(value) + LITERAL_SUFFIX[dtype] if math.isfinite(value) else None
    return f"{array.item()}{LITERAL_SUFFIX[dtype]}"


def _float_attr(value: float) -> str:
    return number_text(value) + ("f" if math.isfinite(value) else "")


# class of an attribute's value -> its text
_VALUE_TEXT: dict[type, Callable[..., str]] = {
    type(None): str,
    bool: str,
    int: str,
    float: _float_attr,
    str: quoted,
    tuple: lambda value: f"[{', '.join(map(value_text, value))}]",
    dict: lambda value: "{" + ", ".join(f"{quoted(str(k))}: {value_text(v)}" for k, v in value.items()) + "}",
}


def value_text(value: object) -> str:
    """The value of an attribute; lists and tuples as ``[1, 2]``, floats with an ``f``.

    A value that is no number, string, list or mapping is written as a string that names its class, and only that
    string is read back.
    """
    for kind in type(value).__mro__:
        if kind in _VALUE_TEXT:
            return _VALUE_TEXT[kind](value)
    if isinstance(value, list):
        return value_text(tuple(value))
    if isinstance(value, np.generic):
        return value_text(value.item())
    return quoted(f"<a {type(value).__name__}>")


def _one_span(span: Span) -> str:
    name = span.source_name.name if span.source_name is not None else ""
    text = name if SPAN_NAME.fullmatch(name) else quoted(name, in_comment=True)
    if span.end_line or span.end_column:
        return f"{text}:{span.line}:{span.end_line}:{span.column}:{span.end_column}"
    return f"{text}:{span.line}:{span.column}" if span.line or span.column else text


def span_text(span: AnySpan | None) -> str:
    """`` /* span=Conv_12 */``, several joined by ``+``; nothing where there is no span.

    A place is ``name``, ``name:line:column`` or ``name:line:end_line:column:end_column``.
    """
    if span is None:
        return ""
    return f" /* span={' + '.join(map(_one_span, span.spans))} */"
