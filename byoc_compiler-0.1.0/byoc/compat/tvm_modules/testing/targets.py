"""The targets that tests run for: those enabled here, those named by a test. Source: ``tvm.testing.utils``."""

from __future__ import annotations

import os

import pytest

from byoc.compat.tvm_modules.devices import device
from byoc.compat.tvm_modules.target import Target
from byoc.runtime.device import Device

DEFAULT_TARGET = "llvm"


def _test_targets() -> list[str]:
    """The targets to test: those in the environment's ``TVM_TEST_TARGETS`` that run here, by default the host."""
    named = [target.strip() for target in os.environ.get("TVM_TEST_TARGETS", "").split(";")]
    return [target for target in named if target and _runs_here(target)] or [DEFAULT_TARGET]


def _runs_here(target: object) -> bool:
    return Target(target).kind.name in ("llvm", "c")  # type: ignore[arg-type]


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that run here, with their devices. Source: ``tvm.testing.enabled_targets``."""
    return [(target, device(target, 0)) for target in _test_targets()]


def device_enabled(target: str | Target) -> bool:
    """Whether tests for *target* run here: code for its kind can be made. Source: ``tvm.testing.device_enabled``."""
    return Target(target).kind.name in {Target(t).kind.name for t in _test_targets()}


def target_parameter(target: object) -> object:
    """*target* as a parameter, which is skipped where its code does not run here."""
    reason = f"byoc generates no code for {target}"
    return pytest.param(target, marks=pytest.mark.skipif(not _runs_here(target), reason=reason), id=str(target))


def parametrize_targets(*args: object) -> object:
    """Run a test for each of the targets named, skipping those that do not run here; bare: for all enabled ones.

    The test gets ``target``, and ``dev`` where it asks for it. Source: ``tvm.testing.parametrize_targets``.
    """
    if len(args) == 1 and callable(args[0]):
        return pytest.mark.parametrize("target", [target_parameter(t) for t in _test_targets()])(args[0])
    return pytest.mark.parametrize("target", [target_parameter(t) for t in args or _test_targets()])


def known_failing_targets(*args: str) -> pytest.MarkDecorator:
    """Expects a test to fail for the targets named. Source: ``tvm.testing.known_failing_targets``."""
    return pytest.mark.tvm_known_failing_targets(*args)


def exclude_targets(*args: str) -> pytest.MarkDecorator:
    """Leaves a test out for the targets named. Source: ``tvm.testing.exclude_targets``."""
    return pytest.mark.tvm_excluded_targets(*args)
