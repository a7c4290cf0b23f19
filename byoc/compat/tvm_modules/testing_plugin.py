"""The pytest plugin ``tvm.testing.plugin``: fixtures ``target`` and ``dev``, and parameters that vary together."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from byoc.compat.tvm_modules.testing import ParameterGroup, enabled_targets, fixture
from byoc.runtime.device import Device

if TYPE_CHECKING:
    import pytest


def _fixture(function: Callable[..., object]) -> object:
    """*function* as a fixture; itself where pytest is not installed, so that this module can be imported."""
    return fixture(function) if importlib.util.find_spec("pytest") else function


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks of TVM's tests."""
    for mark in ("gpu", "tensorcore", "cuda", "opencl", "rocm", "vulkan", "metal", "llvm", "skip_on_arch"):
        config.addinivalue_line("markers", f"{mark}: mark of TVM's tests")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each group of parameters, and ``target`` with ``dev``, to the tests that ask for it."""
    marked = {name for mark in metafunc.definition.iter_markers("parametrize") for name in _names(mark.args[0])}
    wanted = [name for name in ("target", "dev") if name in metafunc.fixturenames and name not in marked]
    if wanted:
        rows = [dict(zip(("target", "dev"), row, strict=True)) for row in enabled_targets()]
        metafunc.parametrize(wanted, [tuple(row[name] for name in wanted) for row in rows], indirect=True)
    groups: dict[ParameterGroup, dict[str, int]] = {}
    for name, definitions in metafunc._arg2fixturedefs.items():
        function = definitions[-1].func
        if hasattr(function, "parameter_group") and name in metafunc.fixturenames and name not in marked:
            groups.setdefault(function.parameter_group, {})[name] = function.position
    for group, positions in groups.items():
        rows = [tuple(values[k] for k in positions.values()) for values in group.value_sets]
        metafunc.parametrize(list(positions), rows, ids=group.ids, indirect=True)


def _names(argument: object) -> list[str]:
    return [n.strip() for n in argument.split(",")] if isinstance(argument, str) else list(argument)  # type: ignore[call-overload]


@_fixture
def target(request: pytest.FixtureRequest) -> str:
    """A target that runs here."""
    return request.param


@_fixture
def dev(request: pytest.FixtureRequest) -> Device:
    """The device of ``target``."""
    return request.param
