"""What is kept for OpenCL devices: binaries of programs, and settings that were found out, one file for each device.

The files stand in ``$BYOC_CACHE_DIR/opencl``, else in the user's cache folder (``files/record_file.py`` says what they
are). A device has a file of its own, so that a start reads the headers of its own entries alone, a process on one
device never waits for one on another, and what belongs to a device can be handed to a machine that has one. An entry
is valid for what its key is the SHA-256 of: source and build options (or a setting's name), and the identity of the
device, which are its name, platform, driver and our version; of a device whose code runs on this processor also the
processor's features. An entry of another driver or version is thus never found; it goes when the file is full.

A cache that cannot be read or written costs time and nothing else. Binaries are code that the driver runs, and a
damaged one may end the process (PoCL 3.0 reads what it is given without looking): none is handed over whose SHA-256
differs. Source: MNN's cache file of programs and tuned settings (``OpenCLRuntime::setCache``).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from byoc.runtime.core.entry_points import version
from byoc.runtime.core.errors import ArtifactError, UserError
from byoc.runtime.core.processor import this_processor
from byoc.runtime.core.strict_json import number_of, object_of, read_json, text_of
from byoc.runtime.files.record_file import FileRecord, RecordFile
from byoc.runtime.opencl.devices import DeviceInfo
from byoc.runtime.opencl.drivers.pocl import PLATFORM as POCL_PLATFORM
from byoc.runtime.opencl.drivers.pocl import compiler_settings

CACHE_VARIABLE = "BYOC_CACHE_DIR"
LIMIT_VARIABLE = "BYOC_OPENCL_CACHE_MB"  # of one device's file; 0: nothing is kept, and nothing is read
LIMIT_MB = 1024
SUFFIX = ".kernels"
PROGRAM, SETTING = "program", "setting"
_LONGEST_NAME = 40  # letters of a device's name in that of its file


def cache_folder() -> Path:
    """Where the files are."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen) / "opencl"
    import platformdirs

    return Path(platformdirs.user_cache_dir("byoc")) / "opencl"


def cache_limit() -> int:
    """The bytes that one device's file may take. Raises UserError where ``$BYOC_OPENCL_CACHE_MB`` is no number."""
    text = os.environ.get(LIMIT_VARIABLE, "").strip() or str(LIMIT_MB)
    if not (text.isascii() and text.isdecimal()):
        raise UserError(f"${LIMIT_VARIABLE} is a number of megabytes, 0 to keep no kernels, got {text!r}")
    return int(text) << 20


@dataclass(frozen=True)
class DeviceIdentity:
    """What a binary or a setting belongs to.

    Attributes:
        device: the device's name.
        platform: the platform's name.
        driver: the versions of platform and driver.
        version: byoc's.
        machine: what else decides the code of a device that is this processor; else empty.
    """

    device: str
    platform: str
    driver: str
    version: str
    machine: str = ""

    def key(self, *parts: str) -> bytes:
        """The SHA-256 of the identity and *parts*."""
        digest = hashlib.sha256()
        for part in (self.device, self.platform, self.driver, self.version, self.machine, *parts):
            data = part.encode()
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        return digest.digest()

    @property
    def file_name(self) -> str:
        """The name of the file of all drivers and versions of this device."""
        return file_name(self.device, self.platform)


def file_name(device: str, platform: str) -> str:
    """The name of a device's file: letters of its name, and a hash of its name and platform.

    >>> file_name("NVIDIA H200", "NVIDIA CUDA")
    'nvidia-h200-cb92d732.kernels'
    """
    letters = re.sub(r"[^a-z0-9]+", "-", device.lower())[:_LONGEST_NAME].strip("-")
    mark = hashlib.sha256(f"{device}\0{platform}".encode()).hexdigest()[:8]
    return f"{letters or 'device'}-{mark}{SUFFIX}"


def identity_of(info: DeviceInfo) -> DeviceIdentity:
    """The identity of a device of this machine, now."""
    driver = f"{info.platform_version}; {info.driver_version}"
    machine = ""
    if info.kind == "cpu":
        processor = this_processor()
        built_for = (processor.machine, *(processor.features or ()), info.repair)
        machine = hashlib.sha256(" ".join(built_for).encode()).hexdigest()
    if info.platform == POCL_PLATFORM:
        machine = " ".join([machine, *compiler_settings()])
    return DeviceIdentity(info.name, info.platform, driver, own_version(), machine)


@functools.cache
def own_version() -> str:
    """byoc's version, as it stands in entries."""
    try:
        return version()
    except importlib.metadata.PackageNotFoundError:  # run from a source tree
        return "source"


@functools.cache
def record_file(path: Path) -> RecordFile:
    """The file at *path*, one object in a process."""
    return RecordFile(path)


@dataclass(frozen=True)
class CacheEntry:
    """What is listed of an entry: what it is and whose.

    Attributes:
        kind: ``program`` or ``setting``.
        name: of a setting; of a program, its kernels, one behind the other.
        device, platform, driver, version: as in :class:`DeviceIdentity`.
        milliseconds: that building took; 0 for a setting.
    """

    kind: str
    name: str
    device: str
    platform: str
    driver: str
    version: str
    milliseconds: int = 0

    def to_text(self) -> bytes:
        return json.dumps(vars(self), sort_keys=True).encode()

    @staticmethod
    def of(record: FileRecord) -> CacheEntry | None:
        """What *record* says, or None where it is none of ours."""
        texts = ("kind", "name", "device", "platform", "driver", "version")
        with contextlib.suppress(ArtifactError):
            fields = object_of(read_json(record.about, "an entry"), "an entry", (*texts, "milliseconds"))
            kind, name, device, platform, driver, version = (text_of(fields[name], name) for name in texts)
            if kind in (PROGRAM, SETTING):
                took = number_of(fields["milliseconds"], "milliseconds")
                return CacheEntry(kind, name, device, platform, driver, version, took)
        return None

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of a program's kernels."""
        return tuple(self.name.split()) if self.kind == PROGRAM else ()


@dataclass(frozen=True)
class DeviceCache:
    """The entries of one device, in the file below *folder*."""

    identity: DeviceIdentity
    folder: Path

    @property
    def file(self) -> RecordFile:
        return record_file(self.folder / self.identity.file_name)

    def program(self, source: str, options: str) -> tuple[bytes, Sequence[str]] | None:
        """The binary of a program and the names of its kernels, or None where none is kept that is whole."""
        found = self._find(self.identity.key(PROGRAM, source, options))
        entry = CacheEntry.of(found) if found is not None else None
        return None if found is None or entry is None else (found.data, entry.kernels)

    def keep_program(self, source: str, options: str, kernels: Sequence[str], binary: bytes, seconds: float) -> bytes:
        """Keep a binary, where that is possible; the key by which :meth:`has` knows whether it is there."""
        key = self.identity.key(PROGRAM, source, options)
        if self._find(key) is None:  # another process may have been as fast
            self._add(key, self._entry(PROGRAM, " ".join(kernels), round(seconds * 1e3)), binary)
        return key

    def has(self, key: bytes) -> bool:
        """Whether the file has a whole entry of *key* now."""
        return self._find(key) is not None

    def setting(self, name: str) -> bytes | None:
        """The JSON of a setting, or None."""
        found = self._find(self.identity.key(SETTING, name))
        return None if found is None else found.data

    def keep_setting(self, name: str, value: bytes) -> bool:
        """Keep the JSON of a setting; whether that was possible."""
        return self._add(self.identity.key(SETTING, name), self._entry(SETTING, name), value)

    def _entry(self, kind: str, name: str, milliseconds: int = 0) -> CacheEntry:
        own = self.identity
        return CacheEntry(kind, name, own.device, own.platform, own.driver, own.version, milliseconds)

    def _find(self, key: bytes) -> FileRecord | None:
        return self.file.find(key) if cache_limit() else None

    def _add(self, key: bytes, entry: CacheEntry, data: bytes) -> bool:
        limit = cache_limit()
        if limit:
            with contextlib.suppress(OSError):
                self.file.add(FileRecord(key, entry.to_text(), data), limit)
                return True
        return False


def device_cache(info: DeviceInfo) -> DeviceCache:
    """The entries of a device of this machine, in the cache folder as it is now."""
    return DeviceCache(identity_of(info), cache_folder())
