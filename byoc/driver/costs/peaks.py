"""What profiles measure devices against: the calibrations of this machine that are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.contract.registration import backend_names
from byoc.driver.costs.machine import Machine, is_calibrated
from byoc.partition.costs.analytic import registered_profile
from byoc.partition.costs.profile import Profile
from byoc.runtime.core.peak import Peak


def kept_peaks(backends: Sequence[str], threads: int = 1) -> Mapping[str, Peak]:
    """By backend, for so many *threads* of host code: as calibrated here, or as its vendor says.

    A backend of which neither is known is left out, and so is one that nobody has registered in this process.
    """
    machine, known = Machine(threads), set(backend_names())
    found = {
        name: machine.kept(name) if is_calibrated(name) else registered_profile(name)
        for name in backends
        if name in known
    }
    return {name: peak_of(profile) for name, profile in found.items() if profile is not None}


def peak_of(profile: Profile) -> Peak:
    """The peaks in a device's *profile*: products at their rate, bytes at that of the nearest memory."""
    rates = {dtype: 2 * rate for dtype, rate in profile.multiply_adds.items()}
    return Peak(rates, max(memory.rate for memory in profile.memories), profile.source)
