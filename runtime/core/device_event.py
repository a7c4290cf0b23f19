"""Something that a module did, as it tells a profiler: a kernel or a copy, with its times."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceEvent:
    """*name* (a kernel, an operator, ``copy in``) within a call of *symbol*.

    *nodes* are the ONNX nodes that it computes a part of, *sizes* the work-items of a kernel and of a group of them,
    where its module knows them. *begin* and *end* are seconds of ``time.perf_counter`` in this process: a module whose
    device has a clock of its own brings them there.
    """

    symbol: str
    name: str
    begin: float
    end: float
    nodes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
