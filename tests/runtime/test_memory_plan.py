"""The arena: nothing that lives together overlaps, and little is wasted."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from byoc.runtime.core.ndarray import ALIGNMENT
from byoc.runtime.graph.memory_plan import Lifetime, largest_live_bytes, plan_memory

BUFFERS = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 40), st.integers(0, 15)).map(
        lambda t: Lifetime(t[0], t[1], t[1] + t[2])
    ),
    max_size=60,
)


@given(BUFFERS)
@settings(max_examples=300, deadline=None)
def test_buffers_that_live_together_never_overlap(buffers):
    plan = plan_memory(buffers)
    for i, a in enumerate(buffers):
        assert plan.offsets[i] % ALIGNMENT == 0
        assert plan.offsets[i] + a.size <= plan.total
        for j, b in enumerate(buffers[:i]):
            if a.first <= b.last and b.first <= a.last and a.size and b.size:
                assert plan.offsets[i] + a.size <= plan.offsets[j] or plan.offsets[j] + b.size <= plan.offsets[i]


@given(BUFFERS)
@settings(max_examples=200, deadline=None)
def test_the_arena_lies_between_the_live_bytes_and_the_sum(buffers):
    plan = plan_memory(buffers)
    assert largest_live_bytes(buffers) <= plan.total <= sum(-(-b.size // ALIGNMENT) * ALIGNMENT for b in buffers)


def test_a_chain_of_equal_buffers_needs_two_of_them():
    chain = [Lifetime(1024, k, k + 1) for k in range(100)]
    assert plan_memory(chain).total == 2048


def test_random_networks_stay_within_ten_percent_of_the_lower_bound_on_average():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(100):
        buffers = [
            Lifetime(int(s) * 64, int(f), int(f + d))
            for s, f, d in zip(rng.integers(1, 500, 80), rng.integers(0, 80, 80), rng.integers(1, 6, 80), strict=True)
        ]
        ratios.append(plan_memory(buffers).total / largest_live_bytes(buffers))
    assert np.mean(ratios) < 1.1


def test_a_chain_of_wide_and_narrow_layers_with_shortcuts_needs_what_lives_at_once():
    """The bottlenecks of a residual network: where a wide one lies decides whether the next has room in one piece."""
    chain = [(4, 0, 1), (1, 1, 4), (1, 2, 3), (1, 3, 5), (4, 4, 5), (4, 5, 9), (4, 6, 7), (1, 7, 8), (1, 8, 9)]
    chain += [(4, 9, 13), (4, 10, 11), (1, 11, 12), (1, 12, 13), (4, 13, 17)]
    buffers = [Lifetime(1024 * size, first, last) for size, first, last in chain]
    assert plan_memory(buffers).total == largest_live_bytes(buffers) == 9 * 1024
    assert plan_memory(buffers, 9 * 1024).total == 9 * 1024
