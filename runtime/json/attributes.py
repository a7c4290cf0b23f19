"""Attributes as Relay's JSON graph writes them: a list of lists of strings.

One list of texts is a scalar or a flat sequence, several lists (which Relay has not) a nested one. None is the empty
text, as are an undefined attribute and the void dtype in Relay; an empty sequence is one empty list. Booleans are ``0``
and ``1``; floats have the 17 digits that bring back every float64. Which Python type a text stands for is the
annotation of the kernel's keyword.

One text is a number or a sequence of one, which matters to a kernel that takes both. It is what numpy's kernel of that
name takes, else a number; a node for which that is not so names its sequences of one in :data:`SEQUENCES_OF_ONE`, an
attribute that Relay has not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from byoc.runtime.core.errors import KernelError

Texts = list[list[str]]
SEQUENCES_OF_ONE = "sequences_of_one"
# what a node says of its outputs; an operator's own attribute of such a name has another key
_OF_OUTPUTS = frozenset(["shape", "dtype", "num_inputs", "num_outputs"])
_TRUTHS = ("0", "1")
_SCALARS: dict[str, Callable[[str], object]] = {
    "int": int,
    "float": float,
    "bool": lambda text: bool(_TRUTHS.index(text)),
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


def decode_attribute(texts: Texts, annotation: str, is_sequence: bool = False) -> object:
    """The value of *texts* as the *annotation* of a kernel's keyword says.

    Of a union the form that fits is taken: None for the empty text (or no list), the scalar for one text unless it
    *is_sequence* and the union has one, else the sequence. Raises KernelError for an annotation or a text that does not
    fit.

    >>> decode_attribute([["1", "2"]], "tuple[int, ...] | None")
    (1, 2)
    >>> decode_attribute([["1"]], "int | tuple[int, ...]"), decode_attribute([["1"]], "int | tuple[int, ...]", True)
    (1, (1,))
    """
    alternatives = _alternatives(annotation)
    if "None" in alternatives and texts in ([], [[""]]):
        return None
    if not texts:
        raise KernelError(f"an attribute of type {annotation} has no value")
    decoders = (_decode_flat, _decode_nested, _decode_scalar) if is_sequence else _SCALARS_FIRST
    misfit: KernelError | None = None
    for decode in decoders:
        for alternative in alternatives:
            try:
                found = decode(texts, alternative)
            except KernelError as error:
                misfit = misfit or error
                continue
            if found is not None:
                return found[0]
    raise misfit or KernelError(f"the attribute value {texts} does not fit the type {annotation}")


def _alternatives(annotation: str) -> list[str]:
    return [a.strip() for a in annotation.split("|")]


def is_of_one(value: object) -> bool:
    """Whether *value* is a sequence of one number or text."""
    return isinstance(value, (tuple, list)) and len(value) == 1 and not isinstance(value[0], (tuple, list))


def sequences_of_one(attrs: Mapping[str, object], reference: Mapping[str, str]) -> list[str] | None:
    """The names of the sequences of one in *attrs*, where the texts and the *reference*'s annotations do not give them.

    None where they do.
    """
    texts = {name: encode_attribute(value) for name, value in attrs.items() if value is not None}
    alone = [name for name, text in texts.items() if len(text) == 1 and len(text[0]) == 1]
    found = [name for name in alone if is_of_one(attrs[name])]
    return None if found == [name for name in alone if _is_sequence(reference.get(name, ""))] else found


def _is_sequence(annotation: str) -> bool:
    """Whether an attribute of that *annotation* is a sequence wherever it is not None."""
    alternatives = [a for a in _alternatives(annotation) if a != "None"]
    return bool(alternatives) and all(_FLAT.match(a) or _NESTED.match(a) for a in alternatives)


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


_SCALARS_FIRST = (_decode_scalar, _decode_flat, _decode_nested)


def _parse(text: str, kind: str) -> object:
    try:
        return _SCALARS[kind](text)
    except ValueError as error:
        raise KernelError(f"the attribute text {text!r} is not of type {kind}") from error


def decode_attributes(
    attrs: Mapping[str, Texts], annotations: Mapping[str, str], reference: Mapping[str, str] | None = None
) -> dict[str, object]:
    """The attributes that *annotations* names, decoded; others are left out. *reference* has numpy's annotations.

    Raises KernelError with the name of one whose annotation does not fit.
    """
    keys = {name: key for name in annotations if (key := attribute_key(name)) in attrs}
    sequences = _sequences(attrs, reference or {})
    found = {}
    for name, key in keys.items():
        try:
            found[name] = decode_attribute(attrs[key], annotations[name], name in sequences)
        except KernelError as error:
            raise KernelError(f"{name}: {annotations[name]}, and {error}: declare it as the model has it") from error
    return found


def _sequences(attrs: Mapping[str, Texts], reference: Mapping[str, str]) -> Collection[str]:
    """The names of the attributes that are sequences also of one."""
    if SEQUENCES_OF_ONE in attrs:
        return [name for row in attrs[SEQUENCES_OF_ONE] for name in row]
    return [name for name, annotation in reference.items() if _is_sequence(annotation)]


def guessed_annotations(attrs: Mapping[str, Texts]) -> dict[str, str]:
    """Annotations for attributes of which only the texts are known: numbers where all texts are some, else strings.

    >>> guessed_annotations({"axis": [["1"]], "layout": [["NCHW"]], "scales": [["1.5", "2"]]})
    {'axis': 'int', 'layout': 'str', 'scales': 'tuple[float, ...]'}
    """
    found = {}
    marked = _sequences(attrs, {})
    for key, texts in attrs.items():
        name = key.removeprefix("op.")
        if key in _OF_OUTPUTS or key == SEQUENCES_OF_ONE or not isinstance(texts, list):
            continue
        kind = _kind_of([text for row in texts for text in row])
        if texts == [[""]]:
            found[name] = f"{kind} | None"
        elif len(texts) != 1:
            found[name] = f"tuple[tuple[{kind}, ...], ...]"
        else:
            found[name] = kind if len(texts[0]) == 1 and name not in marked else f"tuple[{kind}, ...]"
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
