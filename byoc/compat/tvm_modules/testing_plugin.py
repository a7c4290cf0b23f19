"""The pytest plugin ``tvm.testing.plugin``: the fixture ``dev``, tests by target, and parameters that vary together."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from byoc.compat.tvm_modules.devices import device
from byoc.compat.tvm_modules.target import Target
from byoc.compat.tvm_modules.testing.parametrization import ParameterGroup
from byoc.compat.tvm_modules.testing.targets import enabled_targets, target_parameter
from byoc.runtime.core.device import Device

_MARKS = (
    "gpu",
    "tensorcore",
    "cuda",
    "opencl",
    "rocm",
    "vulkan",
    "metal",
    "llvm",
    "skip_on_arch",
    "tvm_excluded_targets",
    "tvm_known_failing_targets",
    "tvm_skip_parameterizations",
    "tvm_xfail_parameterizations",
)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks of TVM's tests."""
    for mark in _MARKS:
        config.addinivalue_line("markers", f"{mark}: mark of TVM's tests")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each enabled target, and each group of parameters, to the tests that ask for it."""
    marked = {name for mark in metafunc.definition.iter_markers("parametrize") for name in _names(mark.args[0])}
    if "target" in metafunc.fixturenames and "target" not in marked and not _has_fixture(metafunc, "target"):
        excluded = _kinds(metafunc.definition, "tvm_excluded_targets")
        targets = [target for target, _ in enabled_targets() if Target(target).kind.name not in excluded]
        metafunc.parametrize("target", [target_parameter(target) for target in targets])
    groups: dict[ParameterGroup, dict[str, int]] = {}
    for name, definitions in metafunc._arg2fixturedefs.items():
        function = definitions[-1].func
        function = getattr(function, "__func__", function)
        group = getattr(function, "parameter_group", None)
        place = getattr(function, "position", None)
        if isinstance(group, ParameterGroup) and isinstance(place, int):
            if name in metafunc.fixturenames and name not in marked:
                groups.setdefault(group, {})[name] = place
    for group, positions in groups.items():
        rows = [tuple(values[k] for k in positions.values()) for values in group.value_sets]
        metafunc.parametrize(list(positions), rows, ids=group.ids, indirect=True)


def _has_fixture(metafunc: pytest.Metafunc, name: str) -> bool:
    return name in metafunc._arg2fixturedefs


def _names(argument: str | Iterable[str]) -> list[str]:
    return [n.strip() for n in argument.split(",")] if isinstance(argument, str) else list(argument)


def _kinds(node: pytest.Item, mark: str) -> set[str]:
    return {Target(target).kind.name for found in node.iter_markers(mark) for target in found.args}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Expect failure, or skip, by the target and by the id of each parametrised test."""
    for item in items:
        call = getattr(item, "callspec", None)
        if call is None:
            continue
        target = call.params.get("target")
        if target is not None and Target(target).kind.name in _kinds(item, "tvm_known_failing_targets"):
            item.add_marker(pytest.mark.xfail(reason=f"known to fail for {target}"))
        _by_id(item, call.id)


def _by_id(item: pytest.Item, name: str) -> None:
    effects = {"tvm_xfail_parameterizations": pytest.mark.xfail, "tvm_skip_parameterizations": pytest.mark.skip}
    for mark, effect in effects.items():
        for found in item.iter_markers(mark):
            if _is_named(name, found.args):
                item.add_marker(effect(reason=str(found.kwargs["reason"])))


def _is_named(name: str, given: Iterable[object]) -> bool:
    return any(name in (one if isinstance(one, (list, tuple)) else (one,)) for one in given)


@pytest.fixture
def dev(target: str) -> Device:
    """The device of ``target``. Source: ``tvm.testing.plugin``."""
    return device(target, 0)
