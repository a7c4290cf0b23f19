"""What TVM's tests use: comparisons, marks by target, parameters, requirements. Source: ``tvm.testing`` v0.18."""

from __future__ import annotations

import importlib
import sys

from byoc.compat.tvm_modules.testing.comparison import assert_allclose, check_numerical_grads, get_dtype_range

# what needs pytest is loaded when it is first asked for, so that scripts can compare numbers without it
_BY_MODULE = {
    "features": (
        "Feature",
        "requires_llvm_minimum_version",
        "requires_nvcc_version",
        "requires_package",
        "skip_if_32bit",
        "skip_if_wheel_test",
        "slow",
        "uses_gpu",
    ),
    "parametrization": ("fixture", "parameter", "parameters", "skip_parameterizations", "xfail_parameterizations"),
    "targets": (
        "device_enabled",
        "enabled_targets",
        "exclude_targets",
        "known_failing_targets",
        "parametrize_targets",
    ),
}
_HOMES = {name: module for module, names in _BY_MODULE.items() for name in names}

__all__ = ["assert_allclose", "check_numerical_grads", "get_dtype_range", "main", "strtobool", *_HOMES]


def main() -> None:
    """Run the tests of the calling file, and exit with pytest's code. Source: ``tvm.testing.main``."""
    path = sys._getframe(1).f_globals["__file__"]
    sys.exit(importlib.import_module("pytest").main([path, *sys.argv[1:]]))


def strtobool(val: str) -> bool:
    """Whether *val* says yes. Raises ValueError for what says neither yes nor no. Source: ``tvm.testing.strtobool``."""
    word = val.lower()
    if word not in _YES | _NO:
        raise ValueError(f"{val!r} is neither yes nor no")
    return word in _YES


_YES = frozenset(("y", "yes", "t", "true", "on", "1"))
_NO = frozenset(("n", "no", "f", "false", "off", "0"))


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name.startswith("requires_"):
        return importlib.import_module(f"{__name__}.features").requirement(name.removeprefix("requires_"))
    raise AttributeError(f"tvm.testing has no name {name!r} in byoc")
