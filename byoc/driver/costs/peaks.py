"""What profiles measure devices against: the peaks of OpenCL devices, and calibrations of this machine.

A device's peak is what it can do; a calibration is what code of ours reaches, and stands in where no module asks its
device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.contract.registration import backend_names, get_backend
from byoc.driver.costs.machine import MachineCosts, is_calibrated
from byoc.errors import DeviceError
from byoc.partition.costs.analytic import registered_profile
from byoc.partition.costs.profile import Profile
from byoc.runtime.devices.peak import Peak, PeakSource


def kept_peaks(backends: Sequence[str], threads: int = 1) -> Mapping[str, Peak]:
    """By backend, for so many *threads* of host code: as calibrated here, or as its vendor says.

    A backend of which neither is known is left out, and so is one that nobody has registered in this process.
    """
    machine, known = MachineCosts(threads), set(backend_names())
    found = {
        name: machine.kept(name) if is_calibrated(name) else registered_profile(name)
        for name in backends
        if name in known
    }
    return {name: peak_of(profile) for name, profile in found.items() if profile is not None}


def device_peak_of(backend: str, source: PeakSource = PeakSource.KEPT_OR_MEASURED) -> Peak | None:
    """The peak of the OpenCL device of *backend*, from *source*.

    None for a backend that has no such device, or where none is here or known. Raises DeviceError for one that cannot
    be measured.
    """
    if "opencl" not in get_backend(backend).devices:
        return None
    try:
        from byoc.runtime.opencl import devices, peaks  # a part that an installation may leave out

        opened = devices.open_device()
    except (DeviceError, ModuleNotFoundError):
        return None
    return peaks.peak_from(opened, source)


def peak_of(profile: Profile) -> Peak:
    """The peaks in a device's *profile*: products at their rate, bytes at that of the nearest memory."""
    rates = {dtype: 2 * rate for dtype, rate in profile.multiply_adds.items()}
    return Peak(rates, max(memory.rate for memory in profile.memories), profile.source)
