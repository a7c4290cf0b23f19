"""The cyclic collector is paused while a pass runs, and left as it was found."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from byoc import relay
from byoc.ir import module_pass
from byoc.ir.collector import MANY, paused_collector


@pytest.fixture(autouse=True)
def collector_on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def module() -> relay.IRModule:
    x = relay.var("x", shape=(2,))
    return relay.IRModule.from_expr(relay.Function([x], relay.tanh(x)))


def test_a_pass_runs_without_the_collector_and_turns_it_on_again() -> None:
    seen: list[bool] = []

    @module_pass(name="look")
    def look(mod: relay.IRModule, ctx: object) -> relay.IRModule:
        seen.append(gc.isenabled())
        return relay.transform.InferType()(mod)

    look(module())
    assert seen == [False]
    assert gc.isenabled()


def test_a_pass_that_raises_turns_the_collector_on_again() -> None:
    @module_pass(name="fail")
    def fail(mod: relay.IRModule, ctx: object) -> relay.IRModule:
        raise LookupError("no")

    with pytest.raises(LookupError):
        fail(module())
    assert gc.isenabled()


def test_nested_pauses_end_with_the_outermost() -> None:
    with paused_collector():
        module().astext()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_its_owner_turned_off_stays_off() -> None:
    gc.disable()
    relay.transform.InferType()(module())
    relay.structural_hash(relay.parse(module().astext()))
    assert not gc.isenabled()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The frozen objects, each time that they are counted; there are some while a test runs."""
    counts: list[int] = []
    real = gc.get_freeze_count

    def count() -> int:
        counts.append(real())
        return counts[-1]

    monkeypatch.setattr(gc, "get_freeze_count", count)
    return counts


def test_passes_that_make_little_do_not_walk_over_what_is_frozen(counted: list[int]) -> None:
    gc.collect()
    for _ in range(20):
        relay.transform.InferType()(module())
    assert counted == []


def test_what_others_have_frozen_stays_so(counted: list[int]) -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    with paused_collector():
        made: list[list[int]] = [[] for _ in range(2 * MANY)]
    assert counted[1:] and gc.get_freeze_count() >= before - 100 and len(made) == 2 * MANY


def test_much_that_was_made_counts_as_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 0)
    frozen: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: frozen.append("unfreeze"))
    with paused_collector():
        made: list[list[int]] = [[] for _ in range(2 * MANY)]
    assert frozen == ["freeze", "unfreeze"] and made
