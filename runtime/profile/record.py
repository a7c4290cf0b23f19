"""What was measured: for each function of a library its times in every run, and what it computes.

Invariant: numbers as they were measured; what follows from them (rows by region, by operator) stands in ``rows.py``. A
record is saved as JSON and read again, and two are compared.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from byoc.runtime.core.device_event import NO_FACTS, EventFacts
from byoc.runtime.core.errors import ArtifactError, UserError
from byoc.runtime.core.function_work import OperatorWork
from byoc.runtime.core.strict_json import at, list_of, mapping_of, number_of, numbered, object_of, text_of, texts_of
from byoc.runtime.devices.peak import Peak

SCHEMA = "byoc.profile/1"
Made = TypeVar("Made", bound="ProfileRecord")
Span = tuple[float, float]  # begin and end, in seconds from the beginning of the run
Runs = tuple[tuple[Span, ...], ...]  # the spans in each of the profiled runs


@dataclass(frozen=True)
class PartRecord:
    """Something that a module reported of the calls of a function: a kernel on its device, a copy, an operator.

    *nodes*, *sizes*, *facts* and *queue* are those of ``DeviceEvent``; empty where its module does not report them.
    *waits* has for each span in *runs* the seconds in the queue, and those on the device before it began.
    """

    name: str
    runs: Runs
    nodes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    facts: EventFacts = NO_FACTS
    queue: str = ""
    waits: Runs = ()

    @property
    def is_copy(self) -> bool:
        """Whether it moves data between the host and a device."""
        return bool(self.queue) and not self.sizes

    def to_json(self) -> dict[str, object]:
        """The part as values; what is empty does not stand there."""
        facts = asdict(self.facts) if self.facts != NO_FACTS else None
        more = {"nodes": list(self.nodes), "sizes": list(self.sizes), "facts": facts, "queue": self.queue}
        more["waits"] = self.waits
        return {"name": self.name, "runs": self.runs, **{name: value for name, value in more.items() if value}}


@dataclass(frozen=True)
class FunctionRecord:
    """A function of the library as it was called: *backend* made its code; *is_region* for a share of a backend.

    *bytes* is what a run's calls read and write, constants included; *memory* what stands in memory between nodes while
    it runs; both None where it is not known. *parts* are what its module reported.
    """

    symbol: str
    backend: str
    runs: Runs
    is_region: bool = False
    operators: tuple[OperatorWork, ...] = ()
    nodes: tuple[str, ...] = ()
    bytes: int | None = None
    memory: int | None = None
    parts: tuple[PartRecord, ...] = ()

    def seconds(self) -> list[float]:
        """The seconds of its calls, for each run."""
        return run_seconds(self.runs)


@dataclass(frozen=True)
class CompileTimes:
    """Seconds of the stages of a compilation, in their order, and of its passes: name, depth, seconds."""

    stages: tuple[tuple[str, float], ...] = ()
    passes: tuple[tuple[str, int, float], ...] = ()


@dataclass(frozen=True)
class ProfileRecord:
    """What was measured of a model.

    *first* has the seconds of the first run, in which modules are initialised, 0 where nobody looked. *seconds* are
    those of each run node by node, which is divided among *functions*; *whole* those of the library's own
    executor, where that is another, on *threads*. *memory* has bytes by what takes them. *warmup* runs are in none.
    """

    model: str
    executor: str
    seconds: tuple[float, ...]
    functions: tuple[FunctionRecord, ...]
    whole: tuple[float, ...] = ()
    threads: int = 1
    warmup: int = 0
    memory: Mapping[str, int] = field(default_factory=dict)
    peaks: Mapping[str, Peak] = field(default_factory=dict)
    compiling: CompileTimes = CompileTimes()
    notes: tuple[str, ...] = ()
    first: float = 0.0

    def rest(self) -> float:
        """Seconds of a run, by the medians, in which no function was at work: the executor's own."""
        if not self.seconds:
            return 0.0
        busy = [statistics.median(f.seconds()) for f in self.functions]
        return max(statistics.median(self.seconds) - sum(busy), 0.0)

    def noting(self: Made, notes: Sequence[str]) -> Made:
        """The record with more *notes*."""
        return replace(self, notes=(*self.notes, *notes))

    def to_json(self) -> dict[str, object]:
        """The record as values that ``json.dumps`` takes."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "executor": self.executor,
            "seconds": list(self.seconds),
            "whole": list(self.whole),
            "first": self.first,
            "threads": self.threads,
            "warmup": self.warmup,
            "memory": dict(self.memory),
            "peaks": {
                name: {
                    "operations": dict(p.operations),
                    "bandwidth": p.bandwidth,
                    "source": p.source,
                    **({"launch": p.launch} if p.launch else {}),
                    **({"near": p.near} if p.near else {}),
                }
                for name, p in self.peaks.items()
            },
            "functions": [_function_to_json(f) for f in self.functions],
            "stages": [list(stage) for stage in self.compiling.stages],
            "passes": [list(step) for step in self.compiling.passes],
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls: type[Made], data: object, where: str = "a profile") -> Made:
        """The record that :meth:`to_json` gave, as values or as text. Raises UserError for anything else."""
        try:
            return cls(**_read(json.loads(data) if isinstance(data, (str, bytes)) else data, where))
        except (ArtifactError, ValueError, RecursionError) as error:
            raise UserError(f"{where}: this is no profile of byoc ({error}); write one with byoc profile -o") from error


def run_seconds(runs: Runs) -> list[float]:
    """The sum of the spans of each run."""
    return [sum(end - begin for begin, end in spans) for spans in runs]


def _function_to_json(function: FunctionRecord) -> dict[str, object]:
    return {
        "symbol": function.symbol,
        "backend": function.backend,
        "region": function.is_region,
        "runs": function.runs,
        "operators": [operator.to_json() for operator in function.operators],
        "nodes": list(function.nodes),
        "bytes": function.bytes,
        "memory": function.memory,
        "parts": [part.to_json() for part in function.parts],
    }


def _read(data: object, where: str) -> dict[str, Any]:
    """The fields of a record."""
    found = mapping_of(data, where)
    if found.get("schema") != SCHEMA:
        raise ArtifactError(f"its schema is {found.get('schema')!r}, and {SCHEMA} is read")
    made = object_of(found, where, _KEYS)

    def mapping(name: str) -> dict[str, object]:
        return mapping_of(made[name], at(where, name))

    return {
        **{name: text_of(made[name], at(where, name)) for name in ("model", "executor")},
        **{name: _seconds(made[name], at(where, name)) for name in ("seconds", "whole")},
        **{name: number_of(made[name], at(where, name)) for name in ("threads", "warmup")},
        "first": _number(made["first"], at(where, "first")),
        "functions": tuple(_function(item, place) for place, item in numbered(made, "functions", where)),
        "memory": {name: number_of(size, at(where, name)) for name, size in mapping("memory").items()},
        "peaks": {name: _peak(peak, at(where, name)) for name, peak in mapping("peaks").items()},
        "compiling": _compile_times(made, where),
        "notes": texts_of(made["notes"], at(where, "notes")),
    }


_KEYS = (
    "schema",
    "model",
    "executor",
    "seconds",
    "whole",
    "first",
    "threads",
    "warmup",
    "memory",
    "peaks",
    "functions",
    "stages",
    "passes",
    "notes",
)


def _function(data: object, where: str) -> FunctionRecord:
    keys = ("symbol", "backend", "region", "runs", "operators", "nodes", "bytes", "memory", "parts")
    made = object_of(data, where, keys)
    counts = {k: None if made[k] is None else number_of(made[k], at(where, k)) for k in ("bytes", "memory")}
    parts = []
    for place, item in numbered(made, "parts", where):
        parts.append(_part(item, place))
    return FunctionRecord(
        text_of(made["symbol"], where),
        text_of(made["backend"], where),
        _runs(made["runs"], at(where, "runs")),
        made["region"] is True,
        tuple(OperatorWork.from_json(item, place) for place, item in numbered(made, "operators", where)),
        texts_of(made["nodes"], where),
        counts["bytes"],
        counts["memory"],
        tuple(parts),
    )


def _part(data: object, where: str) -> PartRecord:
    part = object_of(data, where, ("name", "runs"), ("nodes", "sizes", "facts", "queue", "waits"))
    runs, waits = _runs(part["runs"], where), _runs(part.get("waits", ()), where)
    if waits and list(map(len, waits)) != list(map(len, runs)):
        raise ArtifactError(f"{where}: expected a wait for each of its spans")
    return PartRecord(
        text_of(part["name"], where),
        runs,
        texts_of(part.get("nodes", ()), where),
        tuple(number_of(size, where) for size in list_of(part.get("sizes", []), where)),
        _facts(part["facts"], at(where, "facts")) if "facts" in part else NO_FACTS,
        text_of(part.get("queue", ""), where),
        waits,
    )


def _facts(data: object, where: str) -> EventFacts:
    made = object_of(data, where, ("variant", "operators", "dtype", "operations", "bytes"))
    counts = [None if made[k] is None else number_of(made[k], at(where, k)) for k in ("operations", "bytes")]
    return EventFacts(
        text_of(made["variant"], where), texts_of(made["operators"], where), text_of(made["dtype"], where), *counts
    )


def _runs(data: object, where: str) -> Runs:
    def span(item: object) -> Span:
        begin, end = _seconds(list_of(item, where, 2), where)
        return begin, end

    return tuple(tuple(map(span, list_of(run, where))) for run in list_of(data, where))


def _seconds(data: object, where: str) -> tuple[float, ...]:
    return tuple(_number(item, where) for item in list_of(data, where))


def _number(data: object, where: str) -> float:
    if isinstance(data, bool) or not isinstance(data, (int, float)) or not math.isfinite(data):
        raise ArtifactError(f"{where}: expected a number, found {data!r}")
    return float(data)


def _peak(data: object, where: str) -> Peak:
    made = object_of(data, where, ("operations", "bandwidth", "source"), ("launch", "near"))
    rates = mapping_of(made["operations"], where)
    found = {dtype: _number(rate, where) for dtype, rate in rates.items()}
    if "*" not in found or min(*found.values(), bandwidth := _number(made["bandwidth"], where)) <= 0:
        raise ArtifactError(f"{where}: expected rates above 0, with one of '*'")
    launch = max(_number(made.get("launch", 0), where), 0.0)
    near = []
    for item in list_of(made.get("near", ()), where):
        most, rate = list_of(item, where, 2)
        near.append((number_of(most, where), _number(rate, where)))
    if any(rate <= 0 for _, rate in near):
        raise ArtifactError(f"{where}: expected rates above 0")
    return Peak(found, bandwidth, text_of(made["source"], where), launch, tuple(near))


def _compile_times(made: Mapping[str, object], where: str) -> CompileTimes:
    stages: list[tuple[str, float]] = []
    for place, item in numbered(made, "stages", where):
        name, seconds = list_of(item, place, 2)
        stages.append((text_of(name, place), _number(seconds, place)))
    passes: list[tuple[str, int, float]] = []
    for place, item in numbered(made, "passes", where):
        name, depth, seconds = list_of(item, place, 3)
        passes.append((text_of(name, place), number_of(depth, place), _number(seconds, place)))
    return CompileTimes(tuple(stages), tuple(passes))


def names_of_functions(functions: Sequence[FunctionRecord]) -> list[str]:
    """The symbols without what all of them begin with: what people read."""
    symbols = [f.symbol for f in functions]
    prefixes = ("tvmgen_default_fused_", "tvmgen_default_", "vm_mod_fused_", "vm_mod_")
    return [next((s[len(p) :] for p in prefixes if s.startswith(p) and len(s) > len(p)), s) for s in symbols]
