"""What tests need of a machine: decorators that skip a test without it. Source: ``tvm.testing.utils.Feature``."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
from collections.abc import Callable, Iterable

import pytest

from byoc.compat.tvm_modules.emulated import meets
from byoc.errors import UserError

Test = Callable[..., object]
Decorator = Callable[[Test], Test]

# what byoc has of what TVM's tests may need: code for the host
_PRESENT = {
    "llvm": True,
    "x86": platform.machine() in ("x86_64", "AMD64"),
    "aarch64": platform.machine() in ("aarch64", "arm64"),
}


class Feature:
    """Something that a test needs. As a decorator, with or without ``()``, it skips the test where it is missing."""

    def __init__(self, name: str, present: bool = False):
        self.name, self.present = name, present

    def marks(self) -> list[pytest.MarkDecorator]:
        """The marks that skip a parameter (``pytest.param(..., marks=feature.marks())``) that needs it."""
        return [pytest.mark.skipif(not self.present, reason=f"needs {self.name}, which byoc does not have here")]

    def require(self, *features: str) -> Callable[..., object]:
        """The decorator for this feature and the *features* named. Source: ``Feature.require``."""
        return _with_marks([mark for one in (self, *map(requirement, features)) for mark in one.marks()])

    def __call__(self, *args: object, **options: object) -> object:
        return _with_marks(self.marks())(*args, **options)


def _with_marks(marks: Iterable[pytest.MarkDecorator]) -> Callable[..., object]:
    """A decorator that puts *marks* on a test, written bare, with ``()``, or with ``support_required=…``."""

    def decorate(*args: object, **options: object) -> object:
        if len(args) != 1 or not callable(args[0]):
            return decorate
        test = args[0]
        for mark in marks:
            test = mark(test)
        return test

    return decorate


def requirement(name: str) -> Feature:
    """The feature of TVM's ``requires_<name>``: byoc has it, or an emulated environment that was asked for."""
    return Feature(name, _PRESENT.get(name, False) or meets(name))


def uses_gpu(*args: object) -> object:
    """Leaves the test as it is: it runs for the targets that are enabled. Source: ``tvm.testing.uses_gpu``."""
    return _with_marks([pytest.mark.gpu])(*args)


def requires_package(*packages: str) -> Decorator:
    """Skips a test where one of the Python *packages* is not installed. Source: ``tvm.testing.requires_package``."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs the packages {', '.join(missing)}")


def _version_of(what: str) -> Callable[[object], Callable[..., object]]:
    return lambda version: Feature(f"{what} {version}")


requires_nvcc_version = _version_of("nvcc")


def requires_llvm_minimum_version(major_version: int) -> Callable[..., object]:
    """Leaves the test as it is: what byoc has in place of LLVM has no version that a test could need."""
    if not isinstance(major_version, int):
        raise UserError(f"a version of LLVM is an int, got {major_version!r}")
    return requirement("llvm")


def skip_if_32bit(reason: str = "not on 32-bit machines") -> Callable[..., object]:
    """Skips a test on a machine of 32 bits. Source: ``tvm.testing.skip_if_32bit``."""
    return _with_marks([pytest.mark.skipif("32bit" in platform.architecture()[0], reason=reason)])


def skip_if_wheel_test(*args: object) -> object:
    """Skips a test where the environment's ``WHEEL_TEST`` says yes. Source: ``tvm.testing.skip_if_wheel_test``."""
    wheel = os.environ.get("WHEEL_TEST", "").lower() in ("1", "true", "yes")
    return _with_marks([pytest.mark.skipif(wheel, reason="not in the tests of a wheel")])(*args)


def slow(test: Test) -> Test:
    """Skips a test where the environment's ``SKIP_SLOW_TESTS`` says yes. Source: ``tvm.testing.slow``."""

    @functools.wraps(test)
    def run(*args: object, **options: object) -> object:
        if os.environ.get("SKIP_SLOW_TESTS", "").lower() in ("1", "true", "yes"):
            pytest.skip("SKIP_SLOW_TESTS is set")
        return test(*args, **options)

    return run
