"""A profile as a trace that Perfetto and chrome://tracing read.

Source: "Trace Event Format" of the Chromium project: complete events (``ph: "X"``) with ``ts`` and ``dur`` in
microseconds, and metadata events that name processes and threads. A thread is a backend; what its device reported
stands on others, one for each of the device's queues and one for the copies in it.
"""

from __future__ import annotations

from byoc.runtime.profile.record import FunctionRecord, PartRecord, ProfileRecord, Runs, Span, names_of_functions

PROCESS = 1
MICRO = 1e6
GAP = 1.1  # runs stand one behind the other, this many runs apart


def trace(profile: ProfileRecord) -> dict[str, object]:
    """The runs of *profile* one behind the other, and before them the stages of its compilation."""
    lanes = lanes_of(profile)
    events: list[dict[str, object]] = [
        {"name": "process_name", "ph": "M", "pid": PROCESS, "tid": 0, "args": {"name": f"byoc: {profile.model}"}},
        *(
            {"name": "thread_name", "ph": "M", "pid": PROCESS, "tid": tid, "args": {"name": lane}}
            for lane, tid in lanes.items()
        ),
    ]
    begin = 0.0
    for stage, seconds in profile.compiling.stages:
        events.append(_complete(stage, lanes["compile"], begin, seconds, {}))
        begin += seconds
    for run, seconds in enumerate(profile.seconds):
        events.append(_complete(f"run {run}", lanes["runs"], begin, seconds, {"executor": profile.executor}))
        for function, name in zip(profile.functions, names_of_functions(profile.functions), strict=True):
            events += _spans(name, function.runs, run, (lanes[lane_of(function)], begin), _arguments(function))
            for part in function.parts:
                place = lanes[lane_of_part(function, part)], begin
                for number, (first, last) in enumerate(part.runs[run]):
                    arguments = _part_arguments(function, part, part.waits[run][number] if part.waits else None)
                    events.append(_complete(part.name, place[0], begin + first, last - first, arguments))
        begin += GAP * seconds
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"schema": "byoc.trace/1", "model": profile.model},
    }


def lane_of(function: FunctionRecord) -> str:
    """Where a function is drawn: the host, or the backend whose region it is."""
    return function.backend if function.is_region else "host"


def lane_of_part(function: FunctionRecord, part: PartRecord) -> str:
    """Where a part is drawn: among the function's others, or in its device's queue, copies apart."""
    lane = lane_of(function)
    if not part.queue:
        return f"{lane}: parts"
    return f"{lane}: {'copies of ' if part.is_copy else ''}queue {part.queue}"


def lanes_of(profile: ProfileRecord) -> dict[str, int]:
    """The threads of a trace with their numbers, in the order in which they are shown."""
    names = ["compile"] if profile.compiling.stages else []
    names += ["runs", "host"]
    for function in profile.functions:
        names += [lane_of(function), *(lane_of_part(function, part) for part in function.parts)]
    return {name: number for number, name in enumerate(dict.fromkeys(names), 1)}


def _arguments(function: FunctionRecord) -> dict[str, object]:
    return {
        "symbol": function.symbol,
        "backend": function.backend,
        "nodes": list(function.nodes),
        "operators": [operator.operator for operator in function.operators],
        **({} if function.bytes is None else {"bytes": function.bytes}),
    }


def _part_arguments(function: FunctionRecord, part: PartRecord, waits: Span | None) -> dict[str, object]:
    """What is recorded of a span of a part beside its times; *waits* are those in the queue and on the device."""
    facts, sizes = part.facts, part.sizes
    known: dict[str, object] = {
        "nodes": list(part.nodes),
        "operators": list(facts.operators),
        "variant": facts.variant,
        "gws": sizes[0] if sizes else None,
        "lws": sizes[1] if len(sizes) > 1 else None,
        "operations": facts.operations,
        "bytes": facts.bytes,
        "in_queue_us": None if waits is None else MICRO * waits[0],
        "on_device_us": None if waits is None else MICRO * waits[1],
    }
    return {"function": function.symbol, **{k: v for k, v in known.items() if v not in (None, "", [])}}


def _spans(
    name: str, runs: Runs, run: int, place: tuple[int, float], arguments: dict[str, object]
) -> list[dict[str, object]]:
    tid, begin = place
    return [_complete(name, tid, begin + first, last - first, arguments) for first, last in runs[run]]


def _complete(name: str, tid: int, begin: float, seconds: float, arguments: dict[str, object]) -> dict[str, object]:
    times = {"ts": max(MICRO * begin, 0.0), "dur": max(MICRO * seconds, 0.0)}
    return {"name": name, "cat": "byoc", "ph": "X", **times, "pid": PROCESS, "tid": tid, "args": arguments}
