"""What TVM's tests use: comparisons, marks by target, parameters. Source: ``tvm.testing``."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.compat.tvm_modules.devices import device
from byoc.compat.tvm_modules.target import Target
from byoc.runtime.device import Device
from byoc.runtime.ndarray import from_any

Decorator = Callable[[Callable[..., object]], Callable[..., object]]


def assert_allclose(
    actual: object, desired: object, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Raises AssertionError where shapes or numbers differ by more than the tolerances. Source: ``tvm.testing``."""
    left, right = np.asarray(from_any(actual)), np.asarray(from_any(desired))
    if left.shape != right.shape:
        raise AssertionError(f"the shapes differ: {left.shape} and {right.shape}")
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, verbose=verbose)


def _pytest() -> types.ModuleType:
    """pytest, which only tests need."""
    return importlib.import_module("pytest")


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that run here, with their devices: the host."""
    return [("llvm", device("cpu", 0))]


def device_enabled(target: str | Target) -> bool:
    """Whether code for *target* runs here."""
    return Target(target).kind.name in ("llvm", "c")


def parametrize_targets(*args: object) -> Callable[..., object]:
    """Run a test for each enabled target of those named, giving it ``target`` and ``dev``; bare: for all enabled."""
    if len(args) == 1 and callable(args[0]):
        return _per_target(enabled_targets())(args[0])  # type: ignore[arg-type]
    wanted = {str(target).split()[0] for target in args}
    return _per_target([row for row in enabled_targets() if not wanted or row[0] in wanted])


def _per_target(rows: Sequence[tuple[str, Device]]) -> Decorator:
    return _pytest().mark.parametrize(("target", "dev"), rows)


def known_failing_targets(*args: object) -> Decorator:
    """Leaves the test as it is: the targets that this names do not run here."""
    return lambda test: test


exclude_targets = known_failing_targets


def parameter(*values: object, ids: Sequence[str] | None = None, by_dict: dict[str, object] | None = None) -> object:
    """A pytest fixture that takes each of *values* in turn. Source: ``tvm.testing.parameter``."""
    if by_dict is not None:
        ids, values = list(by_dict), tuple(by_dict.values())

    def value(request: object) -> object:
        return request.param  # type: ignore[attr-defined]

    return _pytest().fixture(params=values, ids=ids)(value)


@dataclass(frozen=True)
class ParameterGroup:
    """Tuples of values that several fixtures take together; the plugin varies them as one."""

    value_sets: tuple[Sequence[object], ...]
    ids: tuple[str, ...] | None


def parameters(*value_sets: Sequence[object], ids: Sequence[str] | None = None) -> list[object]:
    """Fixtures over the tuples of *value_sets*, one a position, that vary together (by ``tvm.testing.plugin``).

    Source: ``tvm.testing.parameters``.
    """
    group = ParameterGroup(value_sets, tuple(ids) if ids else None)
    return [_grouped(group, position) for position in range(len(value_sets[0]))]


def _grouped(group: ParameterGroup, position: int) -> object:
    def value(request: object) -> object:
        return request.param  # type: ignore[attr-defined]

    value.parameter_group, value.position = group, position  # type: ignore[attr-defined]
    return _pytest().fixture(value)


def fixture(func: Callable[..., object] | None = None, *, cache_return_value: bool = False) -> object:
    """pytest's fixture, of module scope where its value is to be kept. Source: ``tvm.testing.fixture``."""
    scope = "module" if cache_return_value else "function"
    make = _pytest().fixture(scope=scope)
    return make if func is None else make(func)


class Requirement:
    """Something that a test needs and that is not here: as a decorator it skips the test."""

    def __init__(self, what: str, present: bool = False):
        self.what, self.present = what, present

    def marks(self) -> list[object]:
        """The marks that skip a parameter that needs it."""
        mark = _pytest().mark.skipif(not self.present, reason=f"needs {self.what}, which is not part of byoc")
        return [mark]

    def __call__(self, *args: object, **options: object) -> object:
        if len(args) == 1 and callable(args[0]) and not options:
            return self.marks()[0](args[0])  # type: ignore[operator]
        return lambda test: self(test)


def uses_gpu(*args: object) -> Callable[..., object]:
    """Leaves the test as it is: it runs for the targets that are enabled."""
    return args[0] if len(args) == 1 and callable(args[0]) else lambda test: test


def main() -> None:
    """Run the tests of the calling file, and exit with pytest's code. Source: ``tvm.testing.main``."""
    path = sys._getframe(1).f_globals["__file__"]
    sys.exit(_pytest().main([path, *sys.argv[1:]]))


def __getattr__(name: str) -> Requirement:
    if name.startswith("requires_"):
        what = name.removeprefix("requires_")
        return Requirement(what, what in _PRESENT)
    raise AttributeError(f"tvm.testing has no name {name!r} in byoc")


_PRESENT = ("llvm", "x86", "package")
