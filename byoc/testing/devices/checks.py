"""The checks of devices by their names, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from byoc.testing.devices import memory_checks, stream_checks
from byoc.testing.devices.trial import DeviceTrial

DEVICE_CHECKS: Mapping[str, Callable[[DeviceTrial], None]] = {
    "properties": memory_checks.properties,
    "round trips": memory_checks.round_trips,
    "offsets": memory_checks.offsets,
    "copies on the device": memory_checks.device_copies,
    "order": stream_checks.order,
    "memories apart": memory_checks.apart,
    "limits of memory": memory_checks.limits,
    "freed memory": memory_checks.freed,
    "unseen by the host": memory_checks.unseen,
    "out of memory": memory_checks.out_of_memory,
    "memory given back": memory_checks.given_back,
    "events": stream_checks.events,
    "time-outs": stream_checks.time_outs,
    "between streams": stream_checks.between_streams,
    "synchronize": stream_checks.synchronized,
    "threads": stream_checks.threads,
    "kernels": stream_checks.kernels,
    "closed": stream_checks.closed,
}
