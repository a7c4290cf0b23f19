"""The conformance of a device: every check of ``checks.py``, reported as a certificate, or as tests of pytest.

from byoc.testing import device_tests
test_acme_device = device_tests("acme")
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from byoc.errors import RunTimeoutError, UserError
from byoc.runtime.artefact.artifact import replace_file
from byoc.runtime.devices.device_api import DeviceAPI
from byoc.runtime.devices.registry import device_api
from byoc.runtime.region.vendor_time_limit import within_time_limit
from byoc.testing.certificate import RIGHT
from byoc.testing.checks import UNTRIED, WRONG
from byoc.testing.devices.checks import DEVICE_CHECKS
from byoc.testing.devices.trial import Broken, DeviceTrial, Untried

SECONDS = 60.0
Opened = str | type[DeviceAPI] | Callable[[], DeviceAPI]


@dataclass(frozen=True)
class DeviceResult:
    """What a check found: ``right``, ``wrong`` or ``untried``, and why."""

    check: str
    verdict: str
    text: str = ""


@dataclass(frozen=True)
class DeviceCertificate:
    """What :func:`certify_device` found. ``str()`` is what the command prints; ``ok`` is whether nothing is wrong."""

    device: str
    properties: dict[str, object]
    results: tuple[DeviceResult, ...]

    @property
    def ok(self) -> bool:
        """Whether something was tried, and nothing is wrong."""
        return any(r.verdict == RIGHT for r in self.results) and not self.failures

    @property
    def failures(self) -> tuple[DeviceResult, ...]:
        """The checks that found something wrong."""
        return tuple(r for r in self.results if r.verdict == WRONG)

    def to_json(self) -> dict[str, object]:
        """The certificate as values that ``json.dumps`` takes."""
        return {**asdict(self), "results": [asdict(r) for r in self.results], "ok": self.ok}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the JSON form to *path*. Raises UserError where the place cannot be written."""
        text = json.dumps(self.to_json(), indent=1) + "\n"
        replace_file(Path(path), lambda file: file.write(text.encode()))
        return Path(path)

    def __str__(self) -> str:
        name, driver = (str(self.properties.get(key, "")) for key in ("name", "driver"))
        about = f" ({name}{f'; {driver}' if driver else ''})" if name else ""
        width = max((len(r.check) for r in self.results), default=0)
        lines = [f"{self.device}{about}: {'conforms' if self.ok else 'does not conform'}"]
        return "\n".join([*lines, *(f"  {r.check:{width}}  {r.verdict}  {r.text}".rstrip() for r in self.results)])


def certify_device(
    device: Opened, *, only: Sequence[str] = (), skip: Sequence[str] = (), seconds: float = SECONDS
) -> DeviceCertificate:
    """Try a device on all that ``byoc.runtime.DeviceAPI`` says of it.

    Args:
        device: what ``byoc.runtime.device_api`` takes, a class, or a function that opens it; each check opens its own.
        only: the checks to make, where not all are meant.
        skip: the checks to leave out.
        seconds: how long a check, and a wait in it, may take before it is reported as one that does not end.

    Raises:
        UserError: no check has such a name, or *device* is a class of something else.
        DeviceError: the device cannot be opened.
    """
    chosen = _chosen(only, skip)
    name, opened = _opened(device)
    first = opened()
    found = first.properties.to_json() if isinstance(first, DeviceAPI) else {}
    return DeviceCertificate(name, found, tuple(_result(check, opened, seconds) for check in chosen))


def device_tests(
    device: Opened, *, only: Sequence[str] = (), skip: Sequence[str] = (), seconds: float = SECONDS
) -> Callable[[str], None]:
    """A test of pytest for each check of :func:`certify_device`; assign it to a name that begins with ``test_``.

    The arguments are those of :func:`certify_device`. Raises UserError where no check has such a name.
    """
    import pytest

    name, opened = _opened(device)

    @pytest.mark.parametrize("check", _chosen(only, skip))
    def test(check: str) -> None:
        found = _result(check, opened, seconds)
        if found.verdict == UNTRIED:
            pytest.skip(found.text)
        assert found.verdict == RIGHT, f"{name}: {check}: {found.text}"

    test.__doc__ = f"The device {name} does what byoc.runtime.DeviceAPI says of devices."
    return test


def _chosen(only: Sequence[str], skip: Sequence[str]) -> list[str]:
    unknown = [name for name in (*only, *skip) if name not in DEVICE_CHECKS]
    if unknown:
        raise UserError(f"no check of devices is called {unknown[0]!r}; they are {', '.join(DEVICE_CHECKS)}")
    return [name for name in DEVICE_CHECKS if name not in skip and (not only or name in only)]


def _opened(device: Opened) -> tuple[str, Callable[[], DeviceAPI]]:
    if isinstance(device, str):
        text = device
        return text, lambda: device_api(text)
    if isinstance(device, type):
        if not issubclass(device, DeviceAPI):
            raise UserError(f"expected a device by name, its class, or a function that opens it, got {device!r}")
        return device.__name__, device.open
    return getattr(device, "__name__", repr(device)), device


def _result(check: str, opened: Callable[[], DeviceAPI], seconds: float) -> DeviceResult:
    def made() -> None:
        device = opened()
        DEVICE_CHECKS[check](DeviceTrial(device, opened, seconds))
        device.close()

    try:
        within_time_limit(made, f"the check {check} was made", 2 * seconds)
    except Untried as error:
        return DeviceResult(check, UNTRIED, str(error))
    except Broken as error:
        return DeviceResult(check, WRONG, str(error))
    except RunTimeoutError as error:
        return DeviceResult(check, WRONG, f"something in it does not end: {error}")
    except Exception as error:  # whatever a vendor's code raises
        return DeviceResult(check, WRONG, f"it raised {type(error).__name__}: {error}")
    return DeviceResult(check, RIGHT)
