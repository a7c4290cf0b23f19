"""The names that a backend speaks of: operators in its constraints, its kernels and its generator's hooks, and their
attributes in its kernels.

Each is one that there is. They are looked at when the backend is used and not when it is registered, since the
operators of a vendor may be registered after it. A name is that of an operator, of a row of its pattern table, or of
another backend's composite.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from weakref import WeakKeyDictionary

from byoc.contract.backend import Backend, PatternEntry
from byoc.contract.checks import pattern_entries
from byoc.contract.verdict import EVERY, ConstraintCheck
from byoc.errors import PartitionError
from byoc.ir.op import OPS

Named = tuple[str, str]  # a name, and what speaks of it

_CHECKED: WeakKeyDictionary[Backend, frozenset[Named]] = WeakKeyDictionary()  # what was found to be there


def check_names(
    backend: Backend, composites_of: Callable[[str], Collection[str] | None], hooks: Sequence[Named] = ()
) -> None:
    """Raises PartitionError for a name that *backend* speaks of and that there is not, with the nearest names.

    *composites_of* gives the composites of another backend; None where they are not known in this process. *hooks* are
    those of its generator, beside those of the generators that its ``compile`` names.
    """
    rows: Sequence[PatternEntry] = ()
    _check_attributes(backend)
    spoken_of = [*_spoken_of(backend), *_in_generators(backend), *hooks]
    if backend not in _CHECKED:
        rows = rows_of(backend)
        named = frozenset([*_in_constraints(backend, rows), *spoken_of])
    else:
        named = frozenset(spoken_of)
    new = named - _CHECKED.get(backend, frozenset())
    if not new:
        _CHECKED.setdefault(backend, named)
        return
    known = {EVERY, *OPS, *(row.name for row in rows or rows_of(backend))}
    for name, where in sorted(new):
        if name in known:
            continue
        other = name.partition(".")[0]
        others = composites_of(other) if other not in (name, backend.name) else ()  # reads what packages are installed
        if others is None or name in others:
            continue
        near = difflib.get_close_matches(name, sorted({*known, *others}), n=5)
        raise PartitionError(
            f"backend {backend.name!r}: {where} is about {name!r}, which is neither an operator nor one of its patterns"
            f"{'; the nearest: ' if near else ''}{', '.join(near)}"
        )
    _CHECKED[backend] = _CHECKED.get(backend, frozenset()) | new


def _spoken_of(backend: Backend) -> Sequence[Named]:
    """What ``named_operators`` of *backend* gives. Raises PartitionError for another form."""
    given: object = backend.named_operators()
    if isinstance(given, Iterable) and not isinstance(given, str):
        pairs = list(given)
        if all(isinstance(p, tuple) and len(p) == 2 and all(isinstance(text, str) for text in p) for p in pairs):
            return pairs
        given = pairs
    raise PartitionError(
        f"backend {backend.name!r}: its named_operators() gave {given!r}, expected pairs of an operator's name and of "
        'what speaks of it, as in [("nn.conv2d", "its table of kernels")]'
    )


def _check_attributes(backend: Backend) -> None:
    """Raises PartitionError for an attribute that a kernel of *backend* names and its operator does not have."""
    for name, attribute, where in backend.named_attributes():
        kind = OPS[name].attrs_type if name in OPS else None
        known = [f.name for f in fields(kind)] if kind is not None and is_dataclass(kind) else []
        if name not in OPS or attribute in known:
            continue
        near = difflib.get_close_matches(attribute, known, n=3)
        said = f"the nearest: {', '.join(near)}" if near else f"it has: {', '.join(known) or 'none'}"
        raise PartitionError(
            f"backend {backend.name!r}: {where} computes by the attribute {attribute!r}, which {name} does not have; "
            f"{said}"
        )


def rows_of(backend: Backend) -> Sequence[PatternEntry]:
    """The pattern table of *backend*, empty where making it raises. Raises PartitionError for a row of another form."""
    try:
        return pattern_entries(backend)
    except PartitionError:
        raise
    except Exception:  # reported where the patterns are asked for
        return ()


def _in_constraints(backend: Backend, rows: Sequence[PatternEntry]) -> Iterator[Named]:
    checks = [row.check.constraints for row in rows if isinstance(row.check, ConstraintCheck)]
    for condition in (*backend.constraints, *(c for check in checks for c in check)):
        of = () if callable(condition.of) else condition.of
        yield from ((name, f"its constraint {condition.code!r}") for name in (*of, *condition.names))


def _in_generators(backend: Backend) -> Iterator[Named]:
    """What the generators have hooks for that the code of its ``compile`` names, in its module or its class."""
    compiler = backend.compile
    module: Mapping[str, object] = getattr(compiler, "__globals__", {})
    for name in getattr(getattr(compiler, "__code__", None), "co_names", ()):
        found = vars(type(backend)).get(name, module.get(name))
        if isinstance(found, type):
            hooks = getattr(found, "named_hooks", None)  # of byoc.contract.hooks, which few backends import
            yield from hooks() if callable(hooks) else ()
