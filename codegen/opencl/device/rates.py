"""How fast a device is, for the cost model: from its measured peaks, against the device that the model was fitted on.

The model's constants are microseconds of an H100 (``products/tile.py``, ``winograd/rewrite.py``). Elsewhere a step of a
tile takes longer as a unit multiplies slower, what lies between two kernels as memory is slower, and another kernel as
a launch is; of which the choice between few large tiles, many parts and more kernels follows. Without measured peaks
the device is taken to be the one that the model was fitted on, with its own number of units.
"""

from __future__ import annotations

from dataclasses import dataclass

from byoc.runtime.devices.peak import ANY, Peak


@dataclass(frozen=True)
class DeviceRates:
    """Float32 *operations* of one unit and *bytes* of the whole device in a microsecond, microseconds of a *launch*."""

    operations: float
    bytes: float
    launch: float
    source: str = ""

    @staticmethod
    def of(peak: Peak, units: int) -> DeviceRates | None:
        """Those of a device with so many *units*; None where a peak is no rate."""
        rate = peak.operations.get("float32", peak.operations.get(ANY, 0.0))
        if min(rate, peak.bandwidth, peak.launch) <= 0 or units < 1:
            return None
        return DeviceRates(rate * 1e-6 / units, peak.bandwidth * 1e-6, peak.launch * 1e6, peak.source)

    @property
    def computing(self) -> float:
        """How many times longer than where the model was fitted a unit takes for operations."""
        return FITTED.operations / self.operations

    @property
    def moving(self) -> float:
        """How many times longer bytes take."""
        return FITTED.bytes / self.bytes

    @property
    def launching(self) -> float:
        """How many times longer a launch takes."""
        return self.launch / FITTED.launch

    def text(self) -> str:
        """For people."""
        rates = f"{self.operations:.4g} operations of a unit and {self.bytes:.4g} bytes"
        return f"{rates} a microsecond, {self.launch:.3g} a launch"


# of an H100 SXM: 64 TFLOP/s with 132 units and 6.2 us a launch as on an H200, which has the same clock and units and
# where both were measured; 2.97 TB/s, which is to its memory's 3.35 as the H200's measured 4.26 is to 4.8
FITTED = DeviceRates(64e6 / 132, 2.97e6, 6.2)
