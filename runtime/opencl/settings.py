"""Settings of a device that were found out: launch settings that won, peaks and thresholds that were measured.

A setting is a JSON value under a name, valid for the device, its driver and our version, in the file that keeps the
device's binaries too (``kernel_cache.py``). Where that cannot be written, settings last as long as the process.
"""

from __future__ import annotations

import functools
import json

from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.fork import new_lock
from byoc.runtime.core.strict_json import read_json
from byoc.runtime.opencl.devices import OpenDevice
from byoc.runtime.opencl.kernel_cache import DeviceCache, device_cache


class DeviceSettings:
    """The settings of one device. Any number of threads and processes may use them.

    >>> from byoc.runtime.opencl.devices import open_device
    >>> settings = settings_of(open_device())
    >>> settings.put("example.threshold", {"rows": 128})
    >>> settings.get("example.threshold")
    {'rows': 128}
    """

    def __init__(self, cache: DeviceCache):
        self._cache = cache
        self._kept: dict[str, bytes] = {}  # which the file did not take
        self._lock = new_lock()

    def get(self, key: str) -> object | None:
        """The value of *key*; None where there is none, where it is damaged, or of another driver or version."""
        with self._lock:
            data = self._kept.get(key)
        if data is None:
            data = self._cache.setting(key)
        if data is None:
            return None
        try:
            return read_json(data, key)
        except ArtifactError:  # whole, and written by nobody that we know
            return None

    def put(self, key: str, value: object) -> None:
        """Keep *value*, of which JSON can be made without losing anything, under *key*, in the place of another.

        Raises TypeError and ValueError for what is not such a value; None is none, since it means that nothing is kept.
        """
        data = json.dumps(value, sort_keys=True, allow_nan=False).encode()
        if value is None or json.loads(data) != value:
            raise ValueError(f"{key}: a setting is a value that JSON gives back as it was, got {value!r}")
        is_kept = self._cache.keep_setting(key, data)
        with self._lock:
            if is_kept:
                self._kept.pop(key, None)
            else:
                self._kept[key] = data

    @property
    def not_kept(self) -> int:
        """How many settings of this process the file did not take."""
        with self._lock:
            return len(self._kept)


def settings_of(opened: OpenDevice) -> DeviceSettings:
    """The settings of a device of this machine, in the cache folder as it is now."""
    return _settings(device_cache(opened.info))


@functools.cache
def _settings(cache: DeviceCache) -> DeviceSettings:
    return DeviceSettings(cache)
