"""The targets that tests run for, which scripts ask for too. Source: ``tvm.testing.utils``."""

from __future__ import annotations

import os

from byoc.compat.tvm_modules.devices import device
from byoc.compat.tvm_modules.target import Target
from byoc.runtime.core.device import Device

DEFAULT_TARGET = "llvm"


def chosen_targets() -> list[str]:
    """The targets to test: those in the environment's ``TVM_TEST_TARGETS`` that run here, by default the host."""
    named = [target.strip() for target in os.environ.get("TVM_TEST_TARGETS", "").split(";")]
    return [target for target in named if target and runs_here(target)] or [DEFAULT_TARGET]


def runs_here(target: object) -> bool:
    """Whether code for *target* can be made and run here."""
    return Target(target).kind.name in ("llvm", "c")  # type: ignore[arg-type]


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that run here, with their devices. Source: ``tvm.testing.enabled_targets``."""
    return [(target, device(target, 0)) for target in chosen_targets()]


def device_enabled(target: str | Target) -> bool:
    """Whether tests for *target* run here: code for its kind can be made. Source: ``tvm.testing.device_enabled``."""
    return Target(target).kind.name in {Target(t).kind.name for t in chosen_targets()}
