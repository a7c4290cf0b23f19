"""Work that is started and waited for. What is allowed follows from who reads what, and from nothing else."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from started_module import Device, Late, StartedModule, dawdling, graph_of, operation_of, reference, tree

from byoc.runtime import Graph, GraphExecutor
from byoc.runtime.core.errors import DeviceError, UserError
from byoc.runtime.graph.overlap import OverlapStep, overlap, start_early

X = np.linspace(-2, 2, 4, dtype="float32")


def steps(*rows):
    return [OverlapStep(tuple(reads), tuple(writes), kind == "device") for kind, reads, writes in rows]


def test_work_is_waited_for_where_it_is_read_and_what_is_read_at_once_is_called():
    order = overlap(
        steps(("device", "x", "a"), ("host", "x", "b"), ("host", "ab", "c"), ("device", "c", "d"), ("host", "d", "e"))
    )
    assert order.waits == ((), (), (0,), (), (), ())
    assert [order.is_started(k) for k in range(5)] == [True, False, False, False, False]
    assert order.end == (2, 2, 3, 4, 5)


def test_adjacent_work_follows_without_the_host_waiting_between():
    order = overlap(steps(("device", "x", "a"), ("device", "a", "b"), ("device", "b", "c"), ("host", "c", "d")))
    assert order.waits == ((), (), (), (0, 1, 2), ())
    assert order.after == ((), (0,), (1,), ()) and order.end == (3, 3, 3, 4)


def test_what_nobody_reads_is_waited_for_at_the_end():
    assert overlap(steps(("device", "x", "a"), ("host", "x", "b"))).waits == ((), (), (0,))


def test_a_chain_of_a_hundred_thousand_is_ordered_and_waited_for():
    count = 100_000
    order = overlap([OverlapStep((k,), (k + 1,), True) for k in range(count)])
    assert order.waits[-1] == tuple(range(count))
    assert start_early(range(count), lambda k: [k - 1], lambda k: k % 2 == 0) == list(range(count))


def test_independent_work_comes_before_the_host_waits():
    needs = {
        "left": "",
        "after left": ["left"],
        "right": "",
        "after right": ["right"],
        "own": "",
        "join": ["after left", "after right"],
    }
    order = start_early(list(needs), needs.__getitem__, {"left", "right"}.__contains__)
    assert order == ["left", "right", "own", "after left", "after right", "join"]


@st.composite
def programs(draw):
    """Inputs, nodes of two devices and the host, heads."""
    inputs, nodes, values = draw(st.integers(1, 2)), [], 0
    values = inputs
    for number in range(draw(st.integers(1, 14))):
        operation = draw(st.sampled_from(["exp", "tanh", "abs", "negative", "add", "multiply", "both"]))
        device = draw(st.sampled_from(["left.", "right.", ""]))
        count = 2 if operation in ("add", "multiply") else 1
        reads = [draw(st.integers(max(0, values - 5), values - 1)) for _ in range(count)]
        nodes.append((f"{device}{operation}#{number}", reads))
        values += 2 if operation == "both" else 1
    heads = draw(st.lists(st.integers(inputs, values - 1), min_size=1, max_size=3, unique=True))
    return inputs, nodes, heads


@given(programs(), st.booleans())
def test_work_that_is_done_at_the_last_moment_gives_the_same_bits(program, is_early):
    inputs, nodes, heads = program
    log, data = [], [X * (k + 1) for k in range(inputs)]

    def start(name, arrays, after):
        call = Late(name, arrays, after, log)
        if is_early:  # before it is made to wait: nothing that it reads may still be in the making
            for other in after:
                if not other.is_done:
                    other.wait()
            call.wait()
            call.wait = lambda: None
        return call

    executor = GraphExecutor(Graph(graph_of(inputs, nodes, heads)), tree({"left": start, "right": start}, nodes, log))
    for _ in range(2):
        got = executor({f"x{k}": x for k, x in enumerate(data)})
        for g, w in zip(got, reference(data, nodes, heads), strict=True):
            np.testing.assert_array_equal(g, w)


FORK = [("left.exp", [0]), ("right.tanh", [0]), ("negative", [0]), ("add", [1, 3]), ("add#2", [4, 2])]


def test_two_devices_work_at_the_same_time():
    """Each kernel goes on only when the other has begun, which no order of one after the other allows."""
    begun = {"left.exp": threading.Event(), "right.tanh": threading.Event()}
    other = {"left.exp": "right.tanh", "right.tanh": "left.exp"}
    log = []

    def kernel(name):
        begun[name].set()
        assert begun[other[name]].wait(10), f"{other[name]} did not begin while {name} was at work"

    left, right = Device(log, kernel), Device(log, kernel)
    executor = GraphExecutor(Graph(graph_of(1, FORK, [5])), tree({"left": left.start, "right": right.start}, FORK, log))
    for _ in range(3):
        log.clear()
        for event in begun.values():
            event.clear()
        np.testing.assert_array_equal(executor({"x0": X})[0], reference([X], FORK, [5])[0])
        assert [e for e in log if e[0] == "start"] == [("start", "left.exp"), ("start", "right.tanh")]
        assert max(log.index(("begin", n)) for n in begun) < min(log.index(("end", n)) for n in begun)
        assert log.index(("call", "negative")) < log.index(("call", "add"))
        assert log.index(("end", "left.exp")) < log.index(("call", "add"))
        assert log.index(("end", "right.tanh")) < log.index(("call", "add#2"))
    left.end(), right.end()


def test_random_delays_change_nothing():
    log = []
    left, right = Device(log, dawdling(1)), Device(log, dawdling(2))
    random = np.random.default_rng(0)
    for seed in range(12):
        nodes = [("left.exp", [0]), ("right.both", [0]), ("negative", [1])]
        for k in range(9):
            operation = ["add", "multiply", "tanh", "abs"][int(random.integers(4))]
            device = ["left.", "right.", ""][int(random.integers(3))]
            reads = [int(v) for v in random.integers(0, 5 + k, 2 if operation in ("add", "multiply") else 1)]
            nodes.append((f"{device}{operation}#{k}", reads))
        heads, data = [13, 12, 5], [X * (seed + 1)]
        root = tree({"left": left.start, "right": right.start}, nodes, log)
        executor = GraphExecutor(Graph(graph_of(1, nodes, heads)), root)
        for _ in range(5):
            for g, w in zip(executor({"x0": data[0]}), reference(data, nodes, heads), strict=True):
                np.testing.assert_array_equal(g, w)
    left.end(), right.end()


def failing(names):
    def kernel(name):
        if name in names:
            raise RuntimeError(f"{name} hung")

    return kernel


def with_origin(root, nodes):
    """Let the host stand in for every region of *root*."""

    class Origin(StartedModule):
        signatures = property(lambda self: {own: _Signature(region) for own, region in self.stands_for.items()})

    class _Signature:
        def __init__(self, region):
            self.inputs = [None] * (2 if operation_of(region) in ("add", "multiply") else 1)

        def bind_sizes(self, inputs):
            return {}

    origin = Origin([n.replace(".", "_on_host.") for n in root.regions], None, [])
    origin.stands_for = {n.replace(".", "_on_host."): n for n in root.regions}
    root.import_module(origin)
    return root


CHAIN = [("left.exp", [0]), ("right.tanh", [1]), ("left.add#1", [1, 2]), ("negative", [0]), ("multiply", [3, 4])]


@pytest.mark.parametrize("broken", [["left.exp"], ["right.tanh"], ["left.exp", "right.tanh", "left.add#1"]])
def test_work_that_fails_when_it_is_waited_for_is_done_by_the_host_and_so_is_what_followed_it(broken):
    log = []
    left, right = Device(log, failing(broken)), Device(log, failing(broken))
    root = with_origin(tree({"left": left.start, "right": right.start}, CHAIN, log), CHAIN)
    executor = GraphExecutor(Graph(graph_of(1, CHAIN, [5, 2])), root)
    for k in range(3):
        for g, w in zip(executor({"x0": X + k}), reference([X + k], CHAIN, [5, 2]), strict=True):
            np.testing.assert_array_equal(g, w)
    assert sorted(r.subgraph for r in executor.fallbacks) == sorted(broken)
    assert {r.stage for r in executor.fallbacks} == {"launch"}
    left.end(), right.end()


def test_without_a_stand_in_nothing_is_at_work_any_more_when_the_error_comes():
    log = []
    left, right = Device(log, failing(["left.exp"])), Device(log, dawdling(3, 0.02))
    executor = GraphExecutor(Graph(graph_of(1, FORK, [5])), tree({"left": left.start, "right": right.start}, FORK, log))
    said = "region left.exp .nodes node_left.exp. on left failed at launch: RuntimeError: left.exp hung"
    with pytest.raises(DeviceError, match=said):
        executor({"x0": X})
    assert ("end", "right.tanh") in log
    with pytest.raises(UserError, match="there is no output yet"):
        executor.get_output()
    left.end(), right.end()
