"""What a backend must say, looked at when it is registered: its name, what it takes, and how it compiles.

A name is what users write after ``-t``, what composites begin with (``acme.conv2d_relu``) and a part of symbols:
lower-case letters, digits, ``_`` and ``-``, beginning with a letter. Its pattern table is looked at when it is first
used, since a vendor's operators may be registered after the backend.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import NoneType

from byoc.contract.backend import Backend, PatternEntry
from byoc.contract.deviation import Deviation
from byoc.contract.limits import Limits
from byoc.contract.quantized import Quantized
from byoc.contract.verdict import Constraint, as_constraint
from byoc.errors import PartitionError, vendors_failure, vendors_line
from byoc.ir.types import DTYPES
from byoc.relay.dataflow_pattern import ConstantPattern, DFPattern, VarPattern, WildcardPattern
from byoc.runtime.core.device import HardwareLevel
from byoc.runtime.modules.module import SENTENCE_OR_NONE, Module

NAME = re.compile(r"[a-z][a-z0-9_-]*")
RULE = "a name is lower-case letters, digits, _ and -, and begins with a letter"
RESERVED = {"host": "what runs where no target takes an operator", "default": "what Relay calls the host"}


def check_backend(backend: Backend) -> None:
    """Hold *backend* to the contract; plain functions among its constraints become constraints.

    Raises PartitionError for a name that is none, for a backend that cannot compile or that does not say what it takes,
    and for constraints or deviations that are none.
    """
    kind = type(backend).__name__
    if not backend.name:
        raise PartitionError(f"{kind} needs a name: the target that users will write")
    _check_name(backend.name, kind)
    if not _gives(backend, "compile"):
        raise PartitionError(
            f"backend {backend.name!r}: {kind} has no method compile(self, function, options), which turns a region "
            f"into a {Module.__module__}.{Module.__name__}; write it, or begin with JsonBackend, which calls kernels"
        )
    given: object = _asked(backend, "constraints")
    if not given and not _gives(backend, "supports"):
        raise PartitionError(
            f"backend {backend.name!r}: {kind} does not say what it takes: give it constraints, or a method "
            "supports(self, call) that returns a Verdict"
        )
    _check_attributes(backend)
    wrong = next((d for d in backend.deviations if not isinstance(d, Deviation)), None)
    if wrong is not None:
        raise PartitionError(
            f"backend {backend.name!r}: {wrong!r} is among its deviations, expected a byoc.contract.Deviation, as in "
            "deviations = (NAN_LOST,)"
        )
    checked = _constraints(backend)
    if not isinstance(given, tuple) or any(new is not old for new, old in zip(checked, given, strict=True)):
        backend.constraints = checked
    if not isinstance(backend.limits, Limits):
        backend.limits = Limits.of(backend.limits, backend.name)


def answer_of(backend: Backend, method: str, expected: str, *given: object) -> object:
    """What *method* of *backend* gives for what is *given*; *expected* says what it must.

    Raises PartitionError for what is no method, and for whatever it raises.
    """
    asked: object = getattr(backend, method)
    place = f"backend {backend.name!r}: its {method}"
    if not callable(asked):
        raise PartitionError(f"{place} is {asked!r}, expected a method {method}(self) that gives {expected}")
    try:
        found: object = asked(*given)
    except BaseException as error:  # whatever a vendor's code raises
        failure = vendors_failure(error)
        raise PartitionError(f"{place}() failed: {vendors_line(failure)}; it must give {expected}") from error
    return found


def why_unavailable(backend: Backend) -> str | None:
    """Why *backend* cannot work on this machine, as it says; None where it can.

    Raises PartitionError where its ``unavailable`` raises, or gives neither a sentence nor None.
    """
    found = answer_of(backend, "unavailable", SENTENCE_OR_NONE)
    if found is None or (isinstance(found, str) and found.strip()):
        return found
    raise PartitionError(f"backend {backend.name!r}: its unavailable() gave {found!r}, expected {SENTENCE_OR_NONE}")


def device_name_of(backend: Backend, options: Mapping[str, object]) -> str | None:
    """The device on which the regions of *backend* run here under its *options*, as it says; None where it says none.

    Raises PartitionError where its ``device_name`` raises, or gives another value.
    """
    expected = "the name of the device and of its driver, or None"
    found = answer_of(backend, "device_name", expected, options)
    if found is None or (isinstance(found, str) and found.strip()):
        return found
    raise PartitionError(f"backend {backend.name!r}: its device_name(options) gave {found!r}, expected {expected}")


def level_of(backend: Backend) -> HardwareLevel:
    """How far the regions of *backend* get on this machine, as it says.

    Raises PartitionError where its ``level`` raises, or gives another value.
    """
    expected = "a byoc.runtime.HardwareLevel, as in HardwareLevel.EMULATED"
    found = answer_of(backend, "level", expected)
    if isinstance(found, HardwareLevel):
        return found
    raise PartitionError(f"backend {backend.name!r}: its level() gave {found!r}, expected {expected}")


def _check_attributes(backend: Backend) -> None:
    """Raises PartitionError for an attribute of *backend* that is of another form than the contract's."""
    for name, (expected, example) in _NAMES.items():
        given: object = getattr(backend, name)
        if given is None and name == "options":
            continue
        if not _are_names(given):
            raise PartitionError(
                f"backend {backend.name!r}: {name} is {given!r}, expected {expected}, as in {name} = {example}"
            )
    for name in backend.small_dtypes:
        if name not in DTYPES:
            raise PartitionError(f"backend {backend.name!r}: small_dtypes: no dtype is called {name!r}")
    if not isinstance(backend.deviations, (tuple, list)):
        raise PartitionError(
            f"backend {backend.name!r}: deviations is {backend.deviations!r}, expected a sequence, as in "
            "deviations = (NAN_LOST,)"
        )
    if not isinstance(backend.quantized, (Quantized, NoneType)):
        raise PartitionError(
            f"backend {backend.name!r}: quantized is {backend.quantized!r}, expected the integers that it takes, as in "
            'quantized = Quantized(operators=("nn.conv2d",), data="int8"), or None'
        )


def _are_names(given: object) -> bool:
    if not isinstance(given, Collection) or isinstance(given, (str, bytes, Mapping)):
        return False
    return all(isinstance(item, str) for item in given)


# what is a sequence of names: of what, and how it is written
_NAMES = {
    "options": ("the names of its options", '("speed",)'),
    "small_dtypes": ("the element types of 8 bits and less that it takes", '("int4",)'),
    "precisions_inside": ("precisions of its places", '("fp16",)'),
    "devices": ("kinds of devices", '("cpu",)'),
}


def _asked(backend: Backend, attribute: str) -> object:
    """An attribute of *backend*. Raises PartitionError where it is a property that raises."""
    try:
        found: object = getattr(backend, attribute)
    except Exception as error:  # whatever a vendor's code raises
        raise PartitionError(f"backend {backend.name!r}: its {attribute} failed: {vendors_line(error)}") from error
    return found


def _check_name(name: object, kind: str) -> None:
    if not isinstance(name, str):
        raise PartitionError(f"{kind}: its name is a {type(name).__name__}, expected a text: {RULE}")
    if name in RESERVED:
        raise PartitionError(f"{kind} cannot be called {name!r}, which is {RESERVED[name]}; choose another name")
    if not NAME.fullmatch(name):
        nearest = re.sub(r"[^a-z0-9_-]+", "_", name.strip().lower()).strip("_-")
        hint = f"; {nearest!r} would do" if NAME.fullmatch(nearest) else ""
        raise PartitionError(f"{kind} cannot be called {name!r}: {RULE}{hint}")


def _gives(backend: Backend, method: str) -> bool:
    """Whether *backend*, or a class of its own, has that method."""
    return method in vars(backend) or getattr(type(backend), method) is not getattr(Backend, method)


def _constraints(backend: Backend) -> tuple[Constraint, ...]:
    given: object = backend.constraints
    if isinstance(given, str) or callable(given) or not isinstance(given, Iterable):
        raise PartitionError(
            f"backend {backend.name!r}: constraints is a {type(given).__name__}, expected a sequence of functions of a "
            "call, as in constraints = (floats_only,)"
        )
    return tuple(as_constraint(item, f"backend {backend.name!r}: constraints[{k}]") for k, item in enumerate(given))


def pattern_entries(backend: Backend) -> Sequence[PatternEntry]:
    """The pattern table of *backend*. A row may be a tuple, (name, pattern) or (name, pattern, check), as in TVM.

    Raises PartitionError for a row of another form.
    """
    try:
        rows: object = backend.patterns()
    except Exception as error:  # whatever a vendor's code raises
        raise PartitionError(f"backend {backend.name!r}: its patterns() failed: {vendors_line(error)}") from error
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise PartitionError(
            f"backend {backend.name!r}: patterns() gave a {type(rows).__name__}, expected a list of rows"
        )
    return [_entry(backend.name, k, row) for k, row in enumerate(rows)]


def _entry(backend: str, position: int, row: object) -> PatternEntry:
    place = f"backend {backend!r}: row {position} of its pattern table"
    if isinstance(row, tuple) and len(row) in (2, 3):
        check = row[2] if len(row) == 3 else None
        if check is not None and not callable(check) and not isinstance(check, Sequence):
            raise PartitionError(f"{place}: the check is {check!r}, expected a function of the match, or constraints")
        row = PatternEntry(row[0], row[1], check)
    if not isinstance(row, PatternEntry):
        raise PartitionError(f"{place} is {row!r}, expected PatternEntry(name, pattern), or a tuple of these")
    if not isinstance(row.name, str) or not isinstance(row.pattern, DFPattern):
        raise PartitionError(
            f"{place} has the name {row.name!r} and a pattern of type {type(row.pattern).__name__}, expected the "
            f"composite's name ({backend}.conv2d_relu) and a pattern (is_op('nn.relu')(...))"
        )
    if isinstance(row.pattern, (WildcardPattern, ConstantPattern, VarPattern)):
        raise PartitionError(
            f"{place}, {row.name}, has a pattern without an operator, which any value matches: begin it with the last "
            "operator of the group, as in is_op('nn.relu')(wildcard())"
        )
    return row


def nearest_names(name: str, known: Iterable[str]) -> str:
    """The one of *known* that *name* may mean, as the end of a sentence: that of the same letters, else the closest."""
    names = sorted(known)
    same = [other for other in names if _letters(other) == _letters(name)]
    near = same or difflib.get_close_matches(name.lower(), names, n=1)
    if not near:
        return ""
    return f"; did you mean {near[0]!r}?{'' if NAME.fullmatch(name) else f' ({RULE})'}"


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
