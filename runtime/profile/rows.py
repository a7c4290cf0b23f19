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
from byoc.runtime.devices.peak import Peak
from byoc.runtime.profile.record import FunctionRecord, PartRecord, ProfileRecord, names_of_functions, run_seconds

Number = TypeVar("Number", int, float)
HOST = "host"
LEVELS = ("region", "kernel", "operator", "node")
NAMELESS = "(no node)"


@dataclass
class ProfileRow:
    """One line: *seconds* of each run, *calls* in one run, *operations* and *bytes* of one run, or None where unknown.

    *memory* is the most that stood in memory between nodes while it ran; *least* the seconds in which the device's
    peaks would do the work, *computing* and *moving* those of its operations and of its bytes alone, *launch* those of
    a kernel without work. Of a device's kernel *sizes* are the work-items and those of a group, *variant* its schedule,
    *waits* for each run the seconds of its calls in the queue and on the device before they began.
    """

    name: str
    backend: str
    seconds: list[float]
    calls: int = 0
    operations: int | None = 0
    bytes: int | None = 0
    memory: int | None = None
    least: float | None = 0.0
    computing: float | None = 0.0
    moving: float | None = 0.0
    launch: float = 0.0
    is_divided: bool = False
    nodes: dict[str, None] = field(default_factory=dict)
    operators: dict[str, None] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    variant: str = ""
    waits: Sequence[tuple[float, float]] = ()

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

    @property
    def of_compute(self) -> float | None:
        """The share of the device's peak of operations that is reached."""
        return self.computing / self.median if self.computing and self.median else None

    @property
    def of_memory(self) -> float | None:
        """The share of the device's peak of bytes that is reached."""
        return self.moving / self.median if self.moving and self.median else None

    @property
    def limit(self) -> str | None:
        """What keeps the device from being faster: ``compute``, ``memory``, or ``launch`` for work that takes less
        than a launch; None where the work or the peaks are not known."""
        if not self.least or self.computing is None or self.moving is None:
            return None
        if self.launch and self.least < self.calls * self.launch:
            return "launch"
        return "compute" if self.computing >= self.moving else "memory"

    @property
    def in_queue(self) -> float | None:
        """Seconds of a call between the host's putting it into the queue and its going to the device."""
        return self._wait(0)

    @property
    def on_device(self) -> float | None:
        """Seconds of a call on the device before it began."""
        return self._wait(1)

    def _wait(self, kind: int) -> float | None:
        return statistics.median(w[kind] for w in self.waits) / max(self.calls, 1) if self.waits else None

    def to_json(self) -> dict[str, object]:
        """The row as values that ``json.dumps`` takes."""
        times: Mapping[str, Callable[[Sequence[float]], float]] = {
            "min": min,
            "mean": statistics.fmean,
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
            "gbs": None if self.bandwidth is None else self.bandwidth / 1e9,
            "of_peak": self.of_peak,
            "of_compute": self.of_compute,
            "of_memory": self.of_memory,
            "limit": self.limit,
            "divided": self.is_divided,
            "nodes": list(self.nodes),
            "operators": list(self.operators),
            "variant": self.variant or None,
            "in_queue_ms": None if self.in_queue is None else 1e3 * self.in_queue,
            "on_device_ms": None if self.on_device is None else 1e3 * self.on_device,
            "gws": self.sizes[0] if self.sizes else None,
            "lws": self.sizes[1] if len(self.sizes) > 1 else None,
        }


@dataclass(frozen=True)
class _Work:
    """What is to be done in a run: operations, bytes, and the least seconds of both together, and of each."""

    operations: int | None = None
    bytes: int | None = None
    least: float | None = None
    computing: float | None = None
    moving: float | None = None

    @staticmethod
    def of(operations: int | None, nbytes: int | None, dtype: str, peak: Peak | None) -> _Work:
        """That of so many operations and bytes, on a device of this *peak*."""
        bounds = None if peak is None else peak.bounds(operations, nbytes, dtype)
        return _Work(operations, nbytes) if bounds is None else _Work(operations, nbytes, max(bounds), *bounds)

    def times(self, calls: int) -> _Work:
        """That of so many calls."""

        def of(value: Number | None) -> Number | None:
            return None if value is None else calls * value

        return _Work(of(self.operations), of(self.bytes), of(self.least), of(self.computing), of(self.moving))


@dataclass(frozen=True)
class _Piece:
    """What a function adds to a row; *part* is what its module reported, where the row is that alone."""

    key: tuple[str, str]
    seconds: Sequence[float]
    work: _Work
    memory: int | None = None
    calls: int = 1
    is_divided: bool = False
    nodes: Sequence[str] = ()
    operators: Sequence[str] = ()
    part: PartRecord | None = None


def rows(profile: ProfileRecord, by: str = "kernel") -> list[ProfileRow]:
    """The rows of *profile*, the longest first. Raises UserError for an unknown level."""
    if by not in LEVELS:
        raise UserError(f"a profile is by {', '.join(LEVELS)}, got {by!r}")
    found: dict[tuple[str, str], ProfileRow] = {}
    for function, name in zip(profile.functions, names_of_functions(profile.functions), strict=True):
        peak = profile.peaks.get(function.backend)
        for piece in _PIECES[by](function, name, peak):
            row = found.setdefault(piece.key, ProfileRow(*piece.key, [0.0] * len(piece.seconds)))
            _add(row, piece, peak)
    return sorted(found.values(), key=lambda row: (-row.median, row.name))


def _add(row: ProfileRow, piece: _Piece, peak: Peak | None) -> None:
    row.seconds = [a + b for a, b in zip(row.seconds, piece.seconds, strict=True)]
    row.calls += piece.calls
    row.is_divided |= piece.is_divided
    row.nodes.update(dict.fromkeys(piece.nodes))
    row.operators.update(dict.fromkeys(piece.operators))
    if piece.part is not None:
        row.sizes, row.variant = piece.part.sizes, piece.part.facts.variant
        row.waits = [(sum(w[0] for w in run), sum(w[1] for w in run)) for run in piece.part.waits]
        row.launch = peak.launch if peak is not None else 0.0
    for name, value in vars(piece.work).items():
        before = getattr(row, name)
        setattr(row, name, None if before is None or value is None else before + value)
    if piece.memory is not None:
        row.memory = max(row.memory or 0, piece.memory)


def _calls(function: FunctionRecord) -> int:
    return max(map(len, function.runs), default=0)


def _whole_work(function: FunctionRecord, peak: Peak | None) -> _Work:
    """That of all calls in a run."""
    calls = _calls(function)
    counted = [operator.operations for operator in function.operators]
    known = [count for count in counted if count is not None]
    operations = calls * sum(known) if known and len(known) == len(counted) else None
    heaviest = max(function.operators, key=lambda o: o.operations or 0, default=None)
    if heaviest is None:
        return _Work(operations, function.bytes)
    return _Work.of(operations, function.bytes, heaviest.dtype, peak)


def _by_region(function: FunctionRecord, name: str, peak: Peak | None) -> Iterator[_Piece]:
    key = (function.symbol, function.backend) if function.is_region else (HOST, "")
    work = _whole_work(function, peak)
    yield _Piece(
        key,
        function.seconds(),
        work,
        function.memory,
        _calls(function),
        nodes=function.nodes,
        operators=_operators(function),
    )


def _operators(function: FunctionRecord) -> list[str]:
    return [operator.operator for operator in function.operators]


def _by_kernel(function: FunctionRecord, name: str, peak: Peak | None) -> Iterator[_Piece]:
    """The function; what its module reported of it stands in its place, with what is left of the calls."""
    work, seconds = _whole_work(function, peak), function.seconds()
    if not function.parts:
        more = _calls(function), False, function.nodes, _operators(function)
        yield _Piece((name, function.backend), seconds, work, function.memory, *more)
        return
    inside = [0.0] * len(seconds)
    for part in function.parts:
        spent, calls = run_seconds(part.runs), max(map(len, part.runs), default=0)
        inside = [a + b for a, b in zip(inside, spent, strict=True)]
        parts, key = _reported_work(function, part, calls, peak), (f"{name}: {part.name}", function.backend)
        operators = part.facts.operators
        yield _Piece(key, spent, parts, None, calls, nodes=part.nodes, operators=operators, part=part)
    rest = [max(a - b, 0.0) for a, b in zip(seconds, inside, strict=True)]
    yield _Piece((f"{name}: around its parts", function.backend), rest, _Work(), function.memory, _calls(function))


def _reported_work(function: FunctionRecord, part: PartRecord, calls: int, peak: Peak | None) -> _Work:
    """Of a part of a function's calls, in a run: as its module counted, else that of operators of its name.

    A copy between host and device is held against no peak, which is that of the device's own memory.
    """
    facts = part.facts
    if facts.operations is not None or facts.bytes is not None:
        return _Work.of(facts.operations, facts.bytes, facts.dtype, None if part.is_copy else peak).times(calls)
    alike = [operator for operator in function.operators if operator.operator == _computes(part)]
    if not alike:
        return _Work()
    works = [_Work.of(o.operations, o.bytes, o.dtype, peak) for o in alike]
    return _sum(works).times(_calls(function))


def _sum(works: Sequence[_Work]) -> _Work:
    """All of *works*; None where one is not known."""
    return _Work(
        _total([work.operations for work in works]),
        _total([work.bytes for work in works]),
        _total([work.least for work in works]),
        _total([work.computing for work in works]),
        _total([work.moving for work in works]),
    )


def _total(values: Sequence[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(values) else None


def _divided(function: FunctionRecord, key_of: Callable[[OperatorWork], str], peak: Peak | None) -> Iterator[_Piece]:
    """A piece for each operator of the function, its time by weight."""
    seconds, calls = function.seconds(), _calls(function)
    operators = function.operators or (OperatorWork(function.symbol, function.nodes, weight=1),)
    shares, measured = _shares_of_parts(operators, function.parts), _measured(function)
    others = [o for o in operators if o.operator not in measured]
    left = measured.get("", seconds)  # what no operator of that name took
    for number, operator in enumerate(operators):
        if shares is not None:
            spent, is_divided = shares[number]
        else:
            alike = [o for o in operators if o.operator == operator.operator] if operator not in others else others
            share = _share(operator, alike)
            spent = [share * s for s in measured.get(operator.operator, left)]
            is_divided = 0 < share < 1
        work = _Work.of(operator.operations, operator.bytes, operator.dtype, peak).times(calls)
        key = key_of(operator), function.backend
        yield _Piece(key, spent, work, function.memory, calls, is_divided, operator.nodes, [operator.operator])


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


def _computes(part: PartRecord) -> str:
    """The operator that a part is: as its module says where it knows no nodes, else by its name."""
    operators = part.facts.operators
    return operators[0] if len(operators) == 1 and not part.nodes else part.name


def _measured(function: FunctionRecord) -> dict[str, list[float]]:
    """The seconds of parts of the function by its operators, where its module measured these; by "" the seconds of the
    parts that are none, which the other operators share. Nothing where these would have no time to share.
    """
    names = {operator.operator for operator in function.operators}
    found: dict[str, list[float]] = {}
    for part in function.parts:
        name, spent = _computes(part), run_seconds(part.runs)
        key = name if name in names else ""
        found[key] = [a + b for a, b in zip(found.get(key, [0.0] * len(spent)), spent, strict=True)]
    return found if names and (names <= set(found) or "" in found) else {}


def _by_operator(function: FunctionRecord, name: str, peak: Peak | None) -> Iterator[_Piece]:
    measured = _measured(function)
    for piece in _divided(function, lambda operator: operator.operator, peak):
        yield replace(piece, is_divided=piece.is_divided and piece.operators[0] not in measured)


def _by_node(function: FunctionRecord, name: str, peak: Peak | None) -> Iterator[_Piece]:
    return _divided(function, lambda operator: " + ".join(operator.nodes) or NAMELESS, peak)


_PIECES: Mapping[str, Callable[[FunctionRecord, str, Peak | None], Iterator[_Piece]]] = {
    "region": _by_region,
    "kernel": _by_kernel,
    "operator": _by_operator,
    "node": _by_node,
}
