"""What the texts of flags say: shapes, names by targets, costs, limits. Each raises UserError for another form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.errors import UserError

# what may be written of a target's regions: the fields of byoc.contract.Limits, which a test compares
LIMITS: dict[str, Callable[[str], float]] = {
    "max_operators": int,
    "max_bytes": int,
    "max_regions": int,
    "min_operators": int,
    "min_gain": float,
    "min_operations": int,
}


def parse_targets(texts: Sequence[str] | None) -> list[str]:
    """The targets of ``-t opencl -t c`` or ``-t opencl,c``; the host alone without any.

    >>> parse_targets(["opencl,json", "c"])
    ['opencl', 'json', 'c']
    """
    names = [name.strip() for text in texts or ["c"] for name in text.split(",")]
    if not all(names):
        raise UserError(f"--target {','.join(texts or ())!r}: a name is empty; write --target opencl --target c")
    return names


def parse_shapes(texts: Sequence[str]) -> dict[str, list[int | str]]:
    """``name=1,3,N`` texts as shapes by input; a dimension that is no number is a name.

    >>> parse_shapes(["x=1,3,N"])
    {'x': [1, 3, 'N']}
    """
    shapes: dict[str, list[int | str]] = {}
    for text in texts:
        name, equals, dims = text.rpartition("=")
        if not equals or not name or not dims:
            raise UserError(f"--shape {text!r}: expected INPUT=1,3,224,224")
        shapes[name] = [_dimension(text, d.strip()) for d in dims.split(",")]
    return shapes


def _dimension(text: str, dim: str) -> int | str:
    if dim.isdecimal():
        return int(dim)
    if not dim.isidentifier():
        raise UserError(f"--shape {text!r}: {dim!r} is neither a number nor the name of a free dimension")
    return dim


def parse_preferred(texts: Sequence[str]) -> dict[str, list[str]]:
    """``NAME=TARGET,TARGET`` texts as targets by operator or ONNX node."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, _, listed = text.rpartition("=")
        targets = [target.strip() for target in listed.split(",")]
        if not name or not all(targets):
            raise UserError(f"--prefer {text!r}: expected NAME=TARGET,TARGET, as in --prefer nn.conv2d=acme2,acme1")
        if name in found:
            raise UserError(f"--prefer {text!r}: {name} has a list already; give it one")
        found[name] = targets
    return found


def parse_forced(texts: Sequence[str]) -> dict[str, list[str]]:
    """``TARGET=NAME`` texts as names by target."""
    found: dict[str, list[str]] = {}
    for text in texts:
        target, equals, name = text.partition("=")
        if not equals or not target or not name:
            raise UserError(f"--force {text!r}: expected TARGET=NAME, as in --force acme=Conv_12")
        found.setdefault(target, []).append(name)
    return found


def parse_costs(texts: Sequence[str]) -> object:
    """``COSTS`` for all targets, or ``NAME=COSTS`` texts by target."""
    named = [text.split("=", 1) for text in texts if "=" in text]
    plain = [text for text in texts if "=" not in text]
    if len(plain) > 1 or (plain and named):
        raise UserError("--costs is given once for all targets, or as NAME=COSTS for each")
    return {name: costs for name, costs in named} if named else plain[0]


def parse_limits(texts: Sequence[str]) -> dict[str, dict[str, float]]:
    """``TARGET.LIMIT=NUMBER`` texts as limits by name by target."""
    found: dict[str, dict[str, float]] = {}
    for text in texts:
        where, _, number = text.partition("=")
        target, _, name = where.rpartition(".")
        if name not in LIMITS or not target:
            raise UserError(f"--limit {text!r}: expected TARGET.LIMIT=NUMBER, the limit one of {', '.join(LIMITS)}")
        try:
            found.setdefault(target, {})[name] = LIMITS[name](number)
        except ValueError as error:
            wanted = "a whole number" if LIMITS[name] is int else "a number"
            raise UserError(f"--limit {text!r}: {number!r} is not {wanted}, which {name} is") from error
    return found
