"""``byoc cache``: what is kept for devices (kernels, settings) and of compiled models: list, clear, merge."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping
from pathlib import Path

from byoc.driver.library_cache import LibraryCache, own_libraries
from byoc.errors import UserError
from byoc.runtime.opencl.cache_files import CacheFile, cache_files, clear, merge
from byoc.runtime.opencl.kernel_cache import PROGRAM, CacheEntry, cache_folder, cache_limit, own_version

HELP = "list, clear or merge what is kept of kernels for devices, and of compiled models"
ACTIONS = ("list", "clear", "merge")
_UNITS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"))


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc cache``."""
    command.add_argument("action", choices=ACTIONS, help="what to do")
    command.add_argument("files", nargs="*", metavar="FILE", help="merge: the cache files, of other machines for one")
    command.add_argument("-o", "--output", metavar="FILE", help="merge: into this file (default: the cache folder's)")
    command.add_argument("--device", metavar="NAME", help="list, clear: only devices with this in their names")
    command.add_argument(
        "--stale", action="store_true", help="clear: only what another version of byoc than this one made"
    )
    command.add_argument("--libraries", action="store_true", help="clear: compiled models instead of what devices have")


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """List, clear or merge. Raises UserError with one sentence."""
    if arguments.files and arguments.action != "merge":
        raise UserError(f"byoc cache {arguments.action} takes no files, got {arguments.files[0]}")
    for name in ("output",) if arguments.action != "merge" else ("device", "stale", "libraries"):
        if getattr(arguments, name):
            raise UserError(f"--{name} is not for byoc cache {arguments.action}")
    if arguments.action != "clear" and (arguments.stale or arguments.libraries):
        raise UserError("--stale and --libraries are for byoc cache clear")
    if arguments.action == "list":
        return _list(arguments.device)
    return _clear(arguments) if arguments.action == "clear" else _merge(arguments)


def _list(device: str | None) -> tuple[Mapping[str, object], str, int]:
    folder = cache_folder()
    files = [f for f in cache_files(folder) if device is None or _names(f, device)]
    lines = []
    for file in files:
        lines.append(f"{', '.join(file.devices) or 'no entry'}: {_size(file.nbytes)}, changed {_age(file.age)} ago")
        lines.append(f"  {file.path}")
        lines += [f"  {_entry(e.entry, e.nbytes)}" for e in file.entries]
    if not files:
        lines.append(f"nothing is kept for {'devices' if device is None else device} in {folder}")
    data: dict[str, object] = {
        "folder": str(folder),
        "limit_bytes": cache_limit(),
        "devices": [f.to_json() for f in files],
    }
    libraries = own_libraries()
    if libraries is not None and device is None:
        kept = _libraries(libraries)
        data["libraries"] = {"folder": str(libraries.folder), "limit_bytes": libraries.limit, **kept}
        lines.append(f"{kept['count']} compiled models: {_size(kept['bytes'])}\n  {libraries.folder}")
    return data, "\n".join(lines), 0


def _clear(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    if arguments.libraries:
        if arguments.device or arguments.stale:
            raise UserError("--libraries clears all compiled models; leave --device and --stale out")
        libraries = own_libraries()
        removed = 0 if libraries is None else LibraryCache(libraries.folder, 0).shrink()
        return {"removed_libraries": removed}, f"removed {removed} compiled models", 0
    name, stale = (arguments.device or "").lower(), arguments.stale
    if not name and not stale:
        removed = clear(cache_folder())
    else:
        current = own_version()
        removed = clear(cache_folder(), lambda e: name in e.device.lower() and (not stale or e.version != current))
    return {"removed": removed}, f"removed {removed} entries", 0


def _merge(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    if not arguments.files:
        raise UserError("byoc cache merge needs the files to merge: byoc cache list names those of this machine")
    sources = [Path(name) for name in arguments.files]
    output = Path(arguments.output) if arguments.output else None
    merged = merge(sources, cache_folder(), output)
    files = [str(path) for path in merged.files]
    data = {"taken": merged.taken, "known": merged.known, "files": files}
    into = ", ".join(files) or str(output or cache_folder())
    return data, f"took {merged.taken} entries into {into}; {merged.known} were there already", 0


def _names(file: CacheFile, device: str) -> bool:
    return any(device.lower() in name.lower() for name in file.devices)


def _libraries(libraries: LibraryCache) -> dict[str, int]:
    sizes = []
    for entry in libraries.folder.glob("*.byoc"):
        with contextlib.suppress(FileNotFoundError):  # another process shrinks the folder
            sizes.append(entry.stat().st_size)
    return {"count": len(sizes), "bytes": sum(sizes)}


def _entry(entry: CacheEntry, nbytes: int) -> str:
    whose = f"byoc {entry.version}, {entry.driver}"
    if entry.kind != PROGRAM:
        return f"setting {entry.name}: {whose}"
    count = len(entry.kernels)
    took = f", built in {entry.milliseconds / 1e3:.2f} s"
    return f"program of {count} kernels ({entry.kernels[0] if count else ''}): {_size(nbytes)}{took}; {whose}"


def _size(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):.1f} MiB" if nbytes >= 1 << 20 else f"{nbytes / 1024:.1f} KiB"


def _age(seconds: float) -> str:
    unit, name = next(((u, n) for u, n in _UNITS if seconds >= u), (1.0, "s"))
    return f"{seconds / unit:.0f} {name}"
