"""Attributes as Relay's JSON graph writes them: a list of lists of strings.

One list of texts is a scalar or a flat sequence, several lists (which Relay has not) a nested one. None is the empty
text, as are an undefined attribute and the void dtype in Relay; an empty sequence is one empty list. Booleans are ``0``
and ``1``; floats have the 17 digits that bring back every float64. Which Python type a text stands for is the
annotation of the kernel's keyword.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from byoc.runtime.core.errors import KernelError

Texts = list[list[str]]
# what a node says of its outputs; an operator's own attribute of such a name has another key
_OF_OUTPUTS = frozenset(["shape", "dtype", "num_inputs", "num_outputs"])
_SCALARS: dict[str, Callable[[str], object]] = {
    "int": int,
    "float": float,
    "bool": lambda text: text == "1",
    "str": str,
}
_FLAT = re.compile(r"tuple\[(int|float|bool|str)(?:, *(?:\.\.\.|int|float|bool|str))*\]$")
_NESTED = re.compile(r"tuple\[tuple\[(int|float|bool|str).*\], *\.\.\.\]$")


def check_annotation(annotation: str, place: str) -> None:
    """Raises KernelError, naming *place*, where *annotation* is not one that attributes are read back by."""
    for alternative in (part.strip() for part in annotation.split("|")):
        known = alternative == "None" or alternative in _SCALARS
        if not (known or _FLAT.match(alternative) or _NESTED.match(alternative)):
            raise KernelError(
                f"{place} has {f'the annotation {annotation!r}' if annotation else 'no annotation'}, expected "
                f"{', '.join(_SCALARS)}, tuple[int, ...], tuple[tuple[int, ...], ...], or a union of these with None"
            )


def scalar_text(value: object) -> str:
    """One number or string as text."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def encode_attribute(value: object) -> Texts:
    """A number, string, None, sequence or sequence of sequences as lists of texts.

    >>> encode_attribute((1, 2)), encode_attribute(True), encode_attribute(None)
    ([['1', '2']], [['1']], [['']])
    """
    if value is None:
        return [[""]]
    if not isinstance(value, (tuple, list)):
        return [[scalar_text(value)]]
    if any(isinstance(v, (tuple, list)) for v in value):
        return [[scalar_text(v) for v in row] for row in value]
    return [[scalar_text(v) for v in value]]


def decode_attribute(texts: Texts, annotation: str) -> object:
    """The value of *texts* as the *annotation* of a kernel's keyword says.

    Of a union the form that fits is taken: None for the empty text (or no list), the scalar for one text, else the
    sequence. Raises KernelError for an annotation or a text that does not fit.

    >>> decode_attribute([["1", "2"]], "tuple[int, ...] | None")
    (1, 2)
    """
    alternatives = [a.strip() for a in annotation.split("|")]
    if "None" in alternatives and texts in ([], [[""]]):
        return None
    if not texts:
        raise KernelError(f"an attribute of type {annotation} has no value")
    for decode in (_decode_scalar, _decode_flat, _decode_nested):
        for alternative in alternatives:
            found = decode(texts, alternative)
            if found is not None:
                return found[0]
    raise KernelError(f"the attribute value {texts} does not fit the type {annotation}")


def _decode_scalar(texts: Texts, alternative: str) -> tuple[object] | None:
    if alternative not in _SCALARS or len(texts) != 1 or len(texts[0]) != 1:
        return None
    return (_parse(texts[0][0], alternative),)


def _decode_flat(texts: Texts, alternative: str) -> tuple[object] | None:
    match = _FLAT.match(alternative)
    return (tuple(_parse(t, match[1]) for t in texts[0]),) if match and len(texts) == 1 else None


def _decode_nested(texts: Texts, alternative: str) -> tuple[object] | None:
    match = _NESTED.match(alternative)
    return (tuple(tuple(_parse(t, match[1]) for t in row) for row in texts),) if match else None


def _parse(text: str, kind: str) -> object:
    try:
        return _SCALARS[kind](text)
    except ValueError as error:
        raise KernelError(f"the attribute text {text!r} is not of type {kind}") from error


def decode_attributes(attrs: Mapping[str, Texts], annotations: Mapping[str, str]) -> dict[str, object]:
    """The attributes that *annotations* names, decoded; others are left out."""
    keys = {name: attribute_key(name) for name in annotations}
    return {name: decode_attribute(attrs[key], annotations[name]) for name, key in keys.items() if key in attrs}


def guessed_annotations(attrs: Mapping[str, Texts]) -> dict[str, str]:
    """Annotations for attributes of which only the texts are known: numbers where all texts are some, else strings.

    >>> guessed_annotations({"axis": [["1"]], "layout": [["NCHW"]], "scales": [["1.5", "2"]]})
    {'axis': 'int', 'layout': 'str', 'scales': 'tuple[float, ...]'}
    """
    found = {}
    for key, texts in attrs.items():
        name = key.removeprefix("op.")
        if key in _OF_OUTPUTS or not isinstance(texts, list):
            continue
        kind = _kind_of([text for row in texts for text in row])
        if texts == [[""]]:
            found[name] = f"{kind} | None"
        elif len(texts) != 1:
            found[name] = f"tuple[tuple[{kind}, ...], ...]"
        else:
            found[name] = kind if len(texts[0]) == 1 else f"tuple[{kind}, ...]"
    return found


def _kind_of(texts: Sequence[str]) -> str:
    for kind in ("int", "float"):
        try:
            list(map(_SCALARS[kind], texts))
        except ValueError:
            continue
        return kind
    return "str"


def attribute_key(name: str) -> str:
    """Under which key of a node the operator's attribute *name* stands.

    >>> attribute_key("axis"), attribute_key("dtype")
    ('axis', 'op.dtype')
    """
    return f"op.{name}" if name in _OF_OUTPUTS else name


def encode_shape(shape: Sequence[object]) -> list[object]:
    """A shape for the JSON graph: -1 stands for a dimension that is known only at run time, as in Relay."""
    return [d if isinstance(d, int) else -1 for d in shape]
