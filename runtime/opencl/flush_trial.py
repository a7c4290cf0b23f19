"""After how many kernels a queue is flushed: as asked for, or as was once measured for the device and kept.

A device may begin with what is in its queue when the queue is flushed and not before, and a flush costs the host time,
so that neither is best everywhere. A trial puts small kernels into a queue, flushed every 1, 2, 10 kernels or not at
all, in turns, and takes the times from the first until all are done. Not to flush stays unless another is faster by
more than the noise of such times.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from byoc.runtime.core.errors import DeviceError
from byoc.runtime.core.time_limit import LIMIT_VARIABLE, TimeLimitError, bounded, compiler_seconds
from byoc.runtime.opencl.build import build_program
from byoc.runtime.opencl.commands.options import FLUSHES, MEASURED
from byoc.runtime.opencl.counts import DeviceCounts
from byoc.runtime.opencl.devices import OpenDevice, import_pyopencl
from byoc.runtime.opencl.process import in_driver
from byoc.runtime.opencl.settings import settings_of

SETTING = "queue.flush_every"
CANDIDATES = tuple(int(word) for word in FLUSHES if word.isdecimal())
KERNELS, TURNS = 40, 9  # kernels of a turn, turns of each candidate
LEAST_GAIN = 0.05  # of the time without a flush
_ITEMS, _GROUP = 4096, 64
_PROBE = """__kernel void byoc_flush_probe(__global float *x) {
  float a = x[get_global_id(0)];
  for (int i = 0; i < 64; i++) a = a * 0.5f + 1.0f;
  x[get_global_id(0)] = a;
}
"""


def flush_every(opened: OpenDevice, asked: str, counts: DeviceCounts) -> int:
    """After how many kernels to flush, 0 for not before the end of a call.

    Args:
        opened: the device.
        asked: a word of ``commands.options.FLUSHES``; empty for what was measured before, and is not measured now.
        counts: where a trial is counted.

    Raises:
        DeviceError, pyopencl's error: what the device refuses of a trial.
    """
    if asked and asked != MEASURED:
        return int(asked) if asked.isdecimal() else 0
    settings = settings_of(opened)
    kept = settings.get(SETTING)
    if isinstance(kept, int) and kept in (0, *CANDIDATES):
        return kept
    if not asked:
        return 0
    counts.trials += 1
    try:
        found = best_of(bounded(lambda: measured(opened), compiler_seconds()))
    except TimeLimitError as error:
        raise DeviceError(
            f"a trial of when to flush the queue of the OpenCL device {opened.info.name!r} {error}: give it more by "
            f"${LIMIT_VARIABLE}, or say flush=none in opencl.mode"
        ) from error
    settings.put(SETTING, found)
    return found


def best_of(seconds: dict[int, float]) -> int:
    """The candidate that is faster than no flush (0) by more than the noise, else 0.

    >>> best_of({0: 1.0, 1: 0.97, 2: 1.2}), best_of({0: 1.0, 1: 0.9, 2: 0.8})
    (0, 2)
    """
    best = min(seconds, key=lambda n: seconds[n])
    return best if seconds[best] < (1 - LEAST_GAIN) * seconds[0] else 0


@in_driver
def measured(opened: OpenDevice) -> dict[int, float]:
    """The seconds of a turn of each candidate, the median of several in turns."""
    cl = import_pyopencl()
    queue = cl.CommandQueue(opened.context, opened.device)
    kernel = cl.Kernel(build_program(_PROBE, opened), "byoc_flush_probe")
    memory = cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, _ITEMS * np.dtype("float32").itemsize)
    cl.enqueue_copy(queue, memory, np.zeros(_ITEMS, "float32"))
    kernel.set_args(memory)
    local = min(_GROUP, opened.info.max_work_group_size)

    def turn(every: int) -> float:
        start = time.perf_counter()
        for number in range(1, KERNELS + 1):
            event = cl.enqueue_nd_range_kernel(queue, kernel, (_ITEMS,), (local,))
            if every and number % every == 0:
                queue.flush()
        event.wait()
        return time.perf_counter() - start

    turn(1)  # the first warms up
    times: dict[int, list[float]] = {n: [] for n in (0, *CANDIDATES)}
    for _ in range(TURNS):
        for n, found in times.items():
            found.append(turn(n))
    return {n: statistics.median(found) for n, found in times.items()}
