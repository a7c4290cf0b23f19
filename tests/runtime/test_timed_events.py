"""Times of a device brought to the host's clock, by events whose times are known before."""

from types import SimpleNamespace

import pytest

from byoc.runtime.core.device_event import EventFacts, EventHeader
from byoc.runtime.opencl.launches import KernelWork, Launch, Variant
from byoc.runtime.opencl.timed_events import TimedEvents, header_of_copy, header_of_launch

SECOND = 1_000_000_000


def event(queued, submit, start, end):
    times = {"queued": queued, "submit": submit, "start": start, "end": end}
    return SimpleNamespace(profile=SimpleNamespace(**{name: int(t * SECOND) for name, t in times.items()}))


def shown(events, clock):
    times = iter(clock)
    timed = TimedEvents("f", "q", lambda: next(times))
    for k, each in enumerate(events):
        timed.add(EventHeader(f"kernel{k}", sizes=(8, 4)), each)
    return timed.events()


def test_events_lie_to_each_other_as_the_devices_clock_says():
    # the device's clock is 900 s behind; the host looked 2 s after the first event was queued, 1 s after the second
    first, second = shown([event(100, 101, 103, 105), event(101, 102, 105, 109)], [1002, 1002, 2000])
    assert (first.queued, first.submitted, first.begin, first.end) == (1001, 1002, 1004, 1006)
    assert (second.queued, second.submitted, second.begin, second.end) == (1002, 1003, 1006, 1010)
    assert first.waits == (1, 2) and second.waits == (1, 3)
    assert (first.queue, first.sizes) == ("q", (8, 4))


def test_an_event_has_not_ended_after_it_was_asked():
    (only,) = shown([event(100, 101, 102, 104)], [1050, 1010])  # the host was slow to look when it was queued
    assert (only.queued, only.end) == (1006, 1010)


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        ((0, 0, 50, 60), (50, 50, 50, 60)),  # only the two that every driver reports
        ((100, 90, 110, 120), (100, 100, 110, 120)),
        ((100, 130, 110, 120), (100, 110, 110, 120)),
        ((100, 101, 99, 98), (100, 100, 100, 100)),
    ],
)
def test_a_driver_whose_times_go_backwards_gives_no_time_below_zero(times, wanted):
    (found,) = shown([event(*times)], [wanted[0], 10_000])
    assert (found.queued, found.submitted, found.begin, found.end) == pytest.approx(wanted)
    assert min(found.waits) >= 0 and found.end >= found.begin


def launch(work):
    return Launch((0, 1), ("N",), (Variant("tile8", "k", "N", 64),), nodes=("Conv_0",), work=work)


def test_what_a_launch_does_is_reported_for_the_sizes_of_the_call():
    made = launch(KernelWork(["mul", "N", 10], ["min", "N", 100], "float32", ("nn.conv2d",)))
    found = header_of_launch(made, made.variants[0], (128, 64), {"N": 200})
    assert (found.name, found.nodes, found.sizes) == ("k", ("Conv_0",), (128, 64))
    assert found.facts == EventFacts("tile8", ("nn.conv2d",), "float32", 2000, 100)


def test_a_plan_without_counts_gives_the_variant_alone():
    made = launch(None)
    assert header_of_launch(made, made.variants[0], (128, 64), {"N": 2}).facts == EventFacts("tile8")
    assert header_of_copy("copy in", 12).facts == EventFacts(bytes=12)


def test_a_count_that_cannot_be_one_is_not_reported():
    made = launch(KernelWork(["div", 8, "N"], ["sub", "N", 9]))
    facts = header_of_launch(made, made.variants[0], (128, 64), {"N": 0}).facts
    assert (facts.operations, facts.bytes) == (None, None)
