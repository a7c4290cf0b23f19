"""Boundaries from a file: JSON, or a rule a line; and Paddle Lite's lines, which name an operator by its tensors.

::

    # what follows is kept at home
    exclude Conv_12
    exclude Softmax_3 from acme
    force Gemm_7 to acme
    stop_at Reshape_20
    conv2d:input_1,weight_1:output_1

The last form is Paddle Lite's (``SUBGRAPH_PARTITION_CONFIG_FILE``): *type:inputs:outputs* keeps the operator with these
tensors at home; outputs may be left out. Tensors may have colons in their names (``a:0``): the line is taken apart
wherever that gives tensors of an operator of this type. A comment begins at the beginning of a line or after a space.
JSON is an object with ``exclude``, ``force`` and ``stop_at`` as :func:`byoc.partition.make_plan` takes them. A line
that means nothing in the model becomes a note of the plan.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence

from byoc.errors import PartitionError
from byoc.partition.boundaries import EXCLUDE, FORCE, HOST, STOP_AT, Boundaries, PlacementRule
from byoc.relay.frontend.onnx.named_nodes import NamedNode
from byoc.runtime.files.whole_file import read_text

_FORMS = {
    EXCLUDE: re.compile(r"exclude\s+(?P<name>.+?)(?:\s+from\s+(?P<target>\S+))?$"),
    FORCE: re.compile(r"force\s+(?P<name>.+?)\s+to\s+(?P<target>\S+)$"),
    STOP_AT: re.compile(r"stop_at\s+(?P<name>.+?)(?:\s+from\s+(?P<target>\S+))?$"),
}
_BY_TENSORS = re.compile(r"(?P<type>[\w.]+):(?P<tensors>.*)$")
_COMMENT = re.compile(r"(^|\s)#.*$")


def read_boundaries(path: str | os.PathLike[str], nodes: Iterable[NamedNode] = ()) -> tuple[PlacementRule, ...]:
    """The rules of the file *path*; *nodes* are the model's, for lines that name tensors.

    Raises PartitionError for a file that cannot be read and for a line that is none of the forms.
    """
    where = os.fspath(path)
    try:
        text = read_text(path, "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PartitionError(f"the boundaries of {where} cannot be read: {error}") from error
    if text.lstrip().startswith("{"):
        return _from_json(text, where)
    known = tuple(nodes)
    return tuple(
        rule
        for number, line in enumerate(text.splitlines(), 1)
        if (content := _COMMENT.sub("", line).strip())
        for rule in _rules(content, f"{where} line {number}", known)
    )


def _from_json(text: str, where: str) -> tuple[PlacementRule, ...]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PartitionError(f"{where} is not JSON: {error}") from error
    unknown = sorted(set(data) - set(_FORMS))
    if unknown:
        raise PartitionError(f"{where} has {', '.join(unknown)}; it may have {', '.join(_FORMS)}")
    targets = [t for value in data.values() if isinstance(value, Mapping) for t in value if t != HOST]
    try:
        rules = Boundaries.of(
            list(dict.fromkeys(targets)), data.get(EXCLUDE, ()), data.get(FORCE), data.get(STOP_AT, ())
        ).rules
    except PartitionError as error:
        raise PartitionError(f"{where}: {error}") from error
    return tuple(PlacementRule(r.kind, r.name, r.target, f"{where} {r.kind}", strict=False) for r in rules)


def _rules(line: str, origin: str, nodes: Sequence[NamedNode]) -> list[PlacementRule]:
    for kind, form in _FORMS.items():
        match = form.match(line)
        if match is not None:
            return [PlacementRule(kind, match["name"], match["target"], origin, strict=False)]
    found = _by_tensors(line, nodes)
    if not found and (_BY_TENSORS.match(line) is None or re.search(r"\s", line)):
        raise PartitionError(
            f"{origin}: {line!r} is no rule; write 'exclude NAME [from TARGET]', 'force NAME to TARGET', "
            "'stop_at NAME [from TARGET]' or 'type:inputs:outputs'"
        )
    return [PlacementRule(FORCE, name, HOST, origin, strict=False, exact=True) for name in found or [line]]


def _by_tensors(line: str, nodes: Sequence[NamedNode]) -> list[str]:
    """The nodes that a line of Paddle Lite's form means, whichever of its colons parts inputs from outputs."""
    match = _BY_TENSORS.match(line)
    if match is None:
        return []
    wanted = re.sub("[123]d$", "", match["type"].lower())  # Paddle's conv2d is ONNX's Conv
    tensors = match["tensors"]
    parts = [(tensors, "")] + [(tensors[:k], tensors[k + 1 :]) for k, letter in enumerate(tensors) if letter == ":"]
    wishes = [[set(filter(None, part.split(","))) for part in pair] for pair in parts]
    return [
        n.name
        for n in nodes
        if n.op_type.lower() == wanted
        and any(inputs.issubset(n.inputs) and outputs.issubset(n.outputs) for inputs, outputs in wishes)
    ]
