"""The rows of a profile's table: its functions, put together by region, kernel, operator or ONNX node.

The time of a function that has several operators is divided among them by what each is estimated to take of it: nobody
can look into generated code from outside. Such rows say so (``Row.is_divided``).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from byoc.runtime.core.errors import UserError
from byoc.runtime.core.function_work import OperatorWork
from byoc.runtime.profile.record import FunctionRecord, PartRecord, Peak, ProfileRecord, names_of_functions, run_seconds

Number = TypeVar("Number", int, float)
HOST = "host"
LEVELS = ("region", "kernel", "operator", "node")
NAMELESS = "(no node)"


@dataclass
class Row:
    """One line: *seconds* of each run, *calls* in one run, *operations* and *bytes* of one run, or None where unknown.

    *sizes* are the work-items of a device's kernel, and those of a group. *memory* is the most that stood in memory
    between nodes while it ran; *least* the seconds in which the peaks of the device would do the work.
    """

    name: str
    backend: str
    seconds: list[float]
    calls: int = 0
    operations: int | None = 0
    bytes: int | None = 0
    memory: int | None = None
    least: float | None = 0.0
    is_divided: bool = False
    nodes: dict[str, None] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()

    @property
    def median(self) -> float:
        """Seconds of the middle run."""
        return statistics.median(self.seconds) if self.seconds else 0.0

    @property
    def rate(self) -> float | None:
        """Operations a second."""
        return self.operations / self.median if self.operations and self.median else None

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second."""
        return self.bytes / self.median if self.bytes and self.median else None

    @property
    def of_peak(self) -> float | None:
        """The share of the device's peak that is reached: the least time by the measured one."""
        return self.least / self.median if self.least and self.median else None

    def to_json(self) -> dict[str, object]:
        """The row as values that ``json.dumps`` takes."""
        times: Mapping[str, Callable[[Sequence[float]], float]] = {
            "min": min,
            "median": statistics.median,
            "max": max,
            "last": lambda s: s[-1],
        }
        return {
            "name": self.name,
            "backend": self.backend,
            "calls": self.calls,
            **{f"{name}_ms": 1e3 * of(self.seconds) if self.seconds else None for name, of in times.items()},
            "operations": self.operations,
            "bytes": self.bytes,
            "memory": self.memory,
            "gflops": None if self.rate is None else self.rate / 1e9,
            "of_peak": self.of_peak,
            "divided": self.is_divided,
            "nodes": list(self.nodes),
            "gws": self.sizes[0] if self.sizes else None,
            "lws": self.sizes[-1] if self.sizes else None,
        }


@dataclass(frozen=True)
class _Piece:
    """What a function adds to a row."""

    key: tuple[str, str]
    seconds: Sequence[float]
    work: tuple[int | None, int | None, float | None]  # operations, bytes, least seconds
    memory: int | None = None
    calls: int = 1
    is_divided: bool = False
    nodes: Sequence[str] = ()
    sizes: tuple[int, ...] = ()


def rows(profile: ProfileRecord, by: str = "kernel") -> list[Row]:
    """The rows of *profile*, the longest first. Raises UserError for an unknown level."""
    if by not in LEVELS:
        raise UserError(f"a profile is by {', '.join(LEVELS)}, got {by!r}")
    found: dict[tuple[str, str], Row] = {}
    for function, name in zip(profile.functions, names_of_functions(profile.functions), strict=True):
        for piece in _PIECES[by](function, name, profile.peaks.get(function.backend)):
            row = found.setdefault(piece.key, Row(*piece.key, [0.0] * len(piece.seconds)))
            _add(row, piece)
    return sorted(found.values(), key=lambda row: (-row.median, row.name))


def _add(row: Row, piece: _Piece) -> None:
    row.seconds = [a + b for a, b in zip(row.seconds, piece.seconds, strict=True)]
    row.calls += piece.calls
    row.is_divided |= piece.is_divided
    row.nodes.update(dict.fromkeys(piece.nodes))
    row.sizes = piece.sizes
    operations, moved, least = piece.work
    row.operations = None if row.operations is None or operations is None else row.operations + operations
    row.bytes = None if row.bytes is None or moved is None else row.bytes + moved
    row.least = None if row.least is None or least is None else row.least + least
    if piece.memory is not None:
        row.memory = max(row.memory or 0, piece.memory)


def _calls(function: FunctionRecord) -> int:
    return max(map(len, function.runs), default=0)


def _whole_work(function: FunctionRecord, peak: Peak | None) -> tuple[int | None, int | None, float | None]:
    """Of all calls in a run: operations, bytes, and the least seconds."""
    calls = _calls(function)
    counted = [operator.operations for operator in function.operators]
    known = [count for count in counted if count is not None]
    operations = calls * sum(known) if known and len(known) == len(counted) else None
    heaviest = max(function.operators, key=lambda o: o.operations or 0, default=None)
    least = None
    if peak is not None and heaviest is not None:
        least = peak.seconds(OperatorWork("", (), heaviest.dtype, 1, operations, function.bytes))
    return operations, function.bytes, least


def _by_region(function: FunctionRecord, name: str, peak: Peak | None) -> Iterator[_Piece]:
    key = (function.symbol, function.backend) if function.is_region else (HOST, "")
    work = _whole_work(function, peak)
    yield _Piece(key, function.seconds(), work, function.memory, _calls(function), nodes=function.nodes)


def _by_kernel(function: FunctionRecord, name: str, peak: Peak | None) -> Iterator[_Piece]:
    """The function; what its module told of it stands in its place, with what is left of the calls."""
    work, seconds = _whole_work(function, peak), function.seconds()
    if not function.parts:
        yield _Piece((name, function.backend), seconds, work, function.memory, _calls(function), nodes=function.nodes)
        return
    inside = [0.0] * len(seconds)
    for part in function.parts:
        spent, calls = run_seconds(part.runs), max(map(len, part.runs), default=0)
        inside = [a + b for a, b in zip(inside, spent, strict=True)]
        told = _told_work(function, part.name, peak)
        key = f"{name}: {part.name}", function.backend
        yield _Piece(key, spent, told, calls=calls, nodes=part.nodes, sizes=part.sizes)
    rest = [max(a - b, 0.0) for a, b in zip(seconds, inside, strict=True)]
    yield _Piece(
        (f"{name}: around its parts", function.backend), rest, (None, None, None), function.memory, _calls(function)
    )


def _told_work(function: FunctionRecord, name: str, peak: Peak | None) -> tuple[int | None, int | None, float | None]:
    """Of the operators that a part of a function's calls is named after, in a run."""
    alike = [operator for operator in function.operators if operator.operator == name]
    if not alike:
        return None, None, None
    return (
        _times(_calls(function), [o.operations for o in alike]),
        _times(_calls(function), [o.bytes for o in alike]),
        _times(_calls(function), [peak.seconds(o) if peak is not None else None for o in alike]),
    )


def _times(calls: int, values: Sequence[Number | None]) -> Number | None:
    """The sum of *values*, so many times; None where one is not known."""
    known = [value for value in values if value is not None]
    return calls * sum(known[1:], known[0]) if known and len(known) == len(values) else None


def _divided(function: FunctionRecord, key_of: Callable[[OperatorWork], str], peak: Peak | None) -> Iterator[_Piece]:
    """A piece for each operator of the function, its time by weight."""
    seconds, calls = function.seconds(), _calls(function)
    operators = function.operators or (OperatorWork(function.symbol, function.nodes, weight=1),)
    shares = _shares_of_parts(operators, function.parts)
    told, is_told = {part.name: run_seconds(part.runs) for part in function.parts}, _is_told(function)
    for number, operator in enumerate(operators):
        if shares is not None:
            spent, is_divided = shares[number]
        else:
            alike = [o for o in operators if o.operator == operator.operator] if is_told else operators
            share = _share(operator, alike)
            spent = [share * s for s in (told[operator.operator] if is_told else seconds)]
            is_divided = 0 < share < 1
        moved = None if operator.bytes is None else calls * operator.bytes
        operations = None if operator.operations is None else calls * operator.operations
        least = peak.seconds(operator) if peak is not None else None
        yield _Piece(
            (key_of(operator), function.backend),
            spent,
            (operations, moved, None if least is None else calls * least),
            function.memory,
            calls,
            is_divided,
            operator.nodes,
        )


def _share(operator: OperatorWork, among: Sequence[OperatorWork]) -> float:
    """The part of what *among* take together that is estimated to be that of *operator*."""
    total = sum(other.weight for other in among)
    return operator.weight / total if total else 1 / len(among)


def _shares_of_parts(
    operators: Sequence[OperatorWork], parts: Sequence[PartRecord]
) -> list[tuple[list[float], bool]] | None:
    """The seconds of each operator by the parts that come from its nodes, and whether some are divided.

    None where an operator has no part, so that nothing is known of it. What comes from no node, as copies, is none's.
    """
    own = [[p for p in parts if not set(p.nodes).isdisjoint(o.nodes)] for o in operators]
    if not all(own):
        return None
    found = []
    for operator, mine in zip(operators, own, strict=True):
        spent, is_divided = [0.0] * len(mine[0].runs), False
        for part in mine:
            share = _share(operator, [o for o in operators if not set(part.nodes).isdisjoint(o.nodes)])
            spent = [a + share * b for a, b in zip(spent, run_seconds(part.runs), strict=True)]
            is_divided |= 0 < share < 1
        found.append((spent, is_divided))
    return found


def _is_told(function: FunctionRecord) -> bool:
    """Whether its module measured each of its operators."""
    told = {part.name for part in function.parts}
    return bool(function.operators) and all(operator.operator in told for operator in function.operators)


def _by_operator(function: FunctionRecord, name: str, peak: Peak | None) -> Iterator[_Piece]:
    for piece in _divided(function, lambda operator: operator.operator, peak):
        yield replace(piece, is_divided=piece.is_divided and not _is_told(function))


def _by_node(function: FunctionRecord, name: str, peak: Peak | None) -> Iterator[_Piece]:
    return _divided(function, lambda operator: " + ".join(operator.nodes) or NAMELESS, peak)


_PIECES: Mapping[str, Callable[[FunctionRecord, str, Peak | None], Iterator[_Piece]]] = {
    "region": _by_region,
    "kernel": _by_kernel,
    "operator": _by_operator,
    "node": _by_node,
}
