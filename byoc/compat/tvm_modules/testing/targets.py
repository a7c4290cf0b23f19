"""The targets that tests run for: those enabled here, those named by a test. Source: ``tvm.testing.utils``."""

from __future__ import annotations

import pytest

from byoc.compat.tvm_modules.testing.enabled import chosen_targets, device_enabled, enabled_targets, runs_here


def target_parameter(target: object) -> object:
    """*target* as a parameter, which is skipped where its code does not run here."""
    reason = f"byoc generates no code for {target}"
    return pytest.param(target, marks=pytest.mark.skipif(not runs_here(target), reason=reason), id=str(target))


def parametrize_targets(*args: object) -> object:
    """Run a test for each of the targets named, skipping those that do not run here; bare: for all enabled ones.

    The test gets ``target``, and ``dev`` where it asks for it. Source: ``tvm.testing.parametrize_targets``.
    """
    if len(args) == 1 and callable(args[0]):
        return pytest.mark.parametrize("target", [target_parameter(t) for t in chosen_targets()])(args[0])
    return pytest.mark.parametrize("target", [target_parameter(t) for t in args or chosen_targets()])


def known_failing_targets(*args: str) -> pytest.MarkDecorator:
    """Expects a test to fail for the targets named. Source: ``tvm.testing.known_failing_targets``."""
    return pytest.mark.tvm_known_failing_targets(*args)


def exclude_targets(*args: str) -> pytest.MarkDecorator:
    """Leaves a test out for the targets named. Source: ``tvm.testing.exclude_targets``."""
    return pytest.mark.tvm_excluded_targets(*args)


__all__ = [
    "device_enabled",
    "enabled_targets",
    "exclude_targets",
    "known_failing_targets",
    "parametrize_targets",
    "target_parameter",
]
