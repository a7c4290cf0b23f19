"""``byoc warm``: fill a device's cache for a model, so that a run there compiles and tries nothing."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from byoc.cli.flags.devices import BACKEND, named_devices, use_device, with_device
from byoc.cli.flags.devices import HELP as DEVICE_HELP
from byoc.cli.report.progress import StageProgress
from byoc.cli.run_command import is_model, load_artifact
from byoc.cli.tensors.arrays import parse_sizes, random_inputs
from byoc.driver.compiler.compile import compile_model
from byoc.driver.options import CompileRequest
from byoc.errors import DeviceError, UserError
from byoc.options.flags import add_flags, given_options
from byoc.runtime.library import Library
from byoc.runtime.opencl.build import build_counts, programs_not_kept, why_unavailable
from byoc.runtime.opencl.devices import OpenDevice, open_device, why_not_here
from byoc.runtime.opencl.kernel_cache import LIMIT_VARIABLE, DeviceCache, cache_limit, device_cache
from byoc.runtime.opencl.settings import settings_of

HELP = "fill a device's cache with the kernels of a model, and with settings that are measured or tuned"
LEVELS = ("none", "fast", "normal", "wide", "heavy")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc warm``."""
    command.add_argument("file", help="an ONNX model, or an artefact that byoc compile wrote")
    command.add_argument(
        "--device", action="append", default=[], metavar="NAME", help=f"{DEVICE_HELP}; repeat it for several"
    )
    command.add_argument("--size", action="append", default=[], metavar="NAME=N", help="the size of a free dimension")
    command.add_argument("--tune", choices=LEVELS, help="tune kernels on the device, as opencl.mode=tuning=LEVEL does")
    command.add_argument("--trusted", action="append", metavar="KEY.pem", help="as of byoc run, for an artefact")
    add_flags(command.add_argument_group("options for a model, as of byoc compile"), "warm", CompileRequest)


@dataclass(frozen=True)
class Warmed:
    """What was done for one device.

    Attributes:
        device: its name.
        file: its cache file.
        built: programs that were compiled.
        found: programs that were there.
        trials: measurements that were made.
        seconds: all of it took, compiling the model included.
    """

    device: str
    file: str
    built: int
    found: int
    trials: int
    seconds: float

    def __str__(self) -> str:
        tried = f", {self.trials} trials" if self.trials else ""
        made = f"{self.built} programs built, {self.found} were there{tried}"
        return f"{self.device}: {made}, in {self.seconds:.2f} s\n  {self.file}"


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Prepare the model on each device. Raises UserError with one sentence."""
    if not cache_limit():
        raise UserError("$BYOC_OPENCL_CACHE_MB is 0, so that nothing is kept for devices: set it to more")
    done = []
    with StageProgress(quiet=arguments.json) as progress:
        for device in named_devices(arguments.device) if arguments.device else [""]:
            done.append(_warm(arguments, device, progress))
    data = {"devices": [vars(warmed) for warmed in done]}
    return data, "\n".join(map(str, done)), 0


def _warm(arguments: argparse.Namespace, device: str, progress: StageProgress) -> Warmed:
    """Prepare the model on *device*, with what that took."""
    start, before = time.perf_counter(), build_counts()
    absent = why_not_here(device) if device else None
    if absent is not None:
        raise DeviceError(absent)
    library = _library(arguments, device, progress)
    info = use_device(library, device)
    problem = why_unavailable(device)  # which builds what loading an artefact asks the device with
    if problem is not None:
        raise DeviceError(problem)
    progress(f"preparing {info.name}")
    library.prepare(random_inputs(library, parse_sizes(library, arguments.size)))
    if library.fallbacks:
        raise UserError(f"{info.name} is not warm: {library.fallbacks[0]}")
    cache, after = device_cache(info), build_counts()
    problem = _not_kept(library, open_device(device), cache)
    if problem is not None:
        raise UserError(f"{info.name} is not warm: {problem}")
    built, found = after.from_source - before.from_source, after.from_cache - before.from_cache
    trials = library.device_counts["trials"]
    return Warmed(info.name, str(cache.file.path), built, found, trials, time.perf_counter() - start)


def _not_kept(library: Library, opened: OpenDevice, cache: DeviceCache) -> str | None:
    """What a later process will not find of what was made, and what to do; None where the cache has all of it."""
    programs, settings = programs_not_kept(opened.info), settings_of(opened).not_kept
    tuning = library.report.get("tuning")
    records = tuning.get("not_kept") if isinstance(tuning, Mapping) else None
    if records:
        return f"tuning is not kept: {records}: name another folder with BYOC_CACHE_DIR"
    if not (programs or settings):
        return None
    return (
        f"{cache.file.path} did not take {programs} programs and {settings} settings: make room there, name another "
        f"folder with BYOC_CACHE_DIR, or raise ${LIMIT_VARIABLE} above {cache_limit() >> 20}"
    )


def _library(arguments: argparse.Namespace, device: str, progress: StageProgress) -> Library:
    """The model compiled for *device*, or the artefact."""
    path = Path(arguments.file)
    if not is_model(path):
        if arguments.tune:
            raise UserError(f"--tune is for models; {path} is compiled already")
        return load_artifact(path, arguments, progress)
    if arguments.trusted:
        raise UserError(f"--trusted is for artefacts; {path} is a model, which nobody signed")
    given = with_device({"targets": [BACKEND], **given_options(arguments, CompileRequest)}, device)
    if arguments.tune:
        options = {**(given.get("backend_options") or {})}
        own = {**options.get(BACKEND, {})}
        own["mode"] = ",".join(filter(None, [str(own.get("mode", "")), f"tuning={arguments.tune}"]))
        given["backend_options"] = {**options, BACKEND: own}
    return compile_model(CompileRequest(path, **given, progress=progress))
