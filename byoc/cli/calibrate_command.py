"""``byoc calibrate``: measure what the devices of this machine can do, for plans by cost."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from byoc.base.progress import Progress
from byoc.cli.report.progress import StageProgress
from byoc.driver.compiler.module_plan import accelerators
from byoc.driver.costs import MachineCosts
from byoc.driver.costs.machine import LONGEST_SECONDS, CalibrationTime, is_calibrated
from byoc.driver.costs.peaks import device_peak_of
from byoc.errors import DeviceError, UserError
from byoc.options.texts import parse_targets
from byoc.partition.costs.model import HOST_BACKEND
from byoc.partition.costs.profile import Profile
from byoc.runtime.core.processor import usable_processors
from byoc.runtime.devices.peak import Peak, PeakSource
from byoc.runtime.profile.table import peak_text

HELP = "measure what the devices of this machine can do, which plans by cost then use"
MICRO, GIGA = 1e6, 1e-9


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc calibrate``."""
    command.add_argument(
        "-t",
        "--target",
        action="append",
        default=[],
        metavar="NAME",
        help="repeat it or separate by commas; the host is always among them (default: c, the host alone)",
    )
    command.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="threads of the host's code (default: one, as small models run, and then as many as there are processors)",
    )
    command.add_argument(
        "--time-limit",
        type=float,
        default=LONGEST_SECONDS,
        metavar="SECONDS",
        help="for how long all devices together are measured: what is begun is finished, and what is not measured then "
        f"counts by typical numbers (default: {LONGEST_SECONDS:g})",
    )
    command.add_argument("--again", action="store_true", help="also what is known already in full")


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Calibrate what is not known, and print all. Raises UserError for a target that is not there."""
    if arguments.threads is not None and arguments.threads < 1:
        raise UserError(f"--threads {arguments.threads}: give a whole number from 1")
    if not arguments.time_limit > 0:
        raise UserError(f"--time-limit {arguments.time_limit:g}: give seconds above 0")
    targets = parse_targets(arguments.target) if arguments.target else []
    names = [HOST_BACKEND, *(n for n in accelerators([*targets, "host"]) if n != HOST_BACKEND)] if targets else ["c"]
    counts = [arguments.threads] if arguments.threads else sorted({1, usable_processors()})
    problems = [
        f"{name} is not calibrated: its vendor says what its device can do" for name in names if not is_calibrated(name)
    ]
    asked = [
        (name, n) for name in names if is_calibrated(name) for n in (counts if name == HOST_BACKEND else counts[:1])
    ]
    with StageProgress(quiet=arguments.json) as progress:
        time_limit = CalibrationTime(arguments.time_limit)
        rows = _profiles(asked, arguments.again, time_limit, progress, problems)
        devices = [name for name, _, _ in rows if name != HOST_BACKEND]
        source = PeakSource.MEASURED if arguments.again else PeakSource.KEPT_OR_MEASURED
        peaks = _peaks(devices, PeakSource.KEPT if time_limit.is_over else source, problems, progress)
    data = {
        "peaks": {name: {**asdict(peak), "operations": dict(peak.operations)} for name, peak in peaks.items()},
        "profiles": [{"backend": name, "threads": threads or None, **p.to_json()} for name, threads, p in rows],
        "problems": problems,
    }
    peak_lines = [f"peak of {name}: {peak_text(peak)}" for name, peak in peaks.items()]
    return (
        data,
        "\n".join([*_table(rows), *peak_lines, *(f"note: {problem}" for problem in problems)]),
        0 if rows else 3,
    )


def _profiles(
    asked: Sequence[tuple[str, int]], again: bool, time_limit: CalibrationTime, progress: Progress, problems: list[str]
) -> list[tuple[str, int, Profile]]:
    """What is known of each backend with so many threads, measured now where it is not, where something is lacking, or
    *again*; what is wrong with it is listed in *problems*.
    """
    machines = [MachineCosts(threads, progress=progress, time_limit=time_limit) for _, threads in asked]
    known = [None if again else machine.kept_in_full(name) for machine, (name, _) in zip(machines, asked, strict=True)]
    time_limit.shares = known.count(None)
    rows = []
    for machine, (name, threads), profile in zip(machines, asked, known, strict=True):
        found = profile or machine.calibrate(name)
        problems += [problem for problem in machine.problems if problem not in problems]
        if found is not None:
            rows.append((name, threads if name == HOST_BACKEND else 0, found))
    return rows


def _peaks(backends: Sequence[str], source: PeakSource, problems: list[str], progress: Progress) -> dict[str, Peak]:
    """What the devices of *backends* can do at most; what cannot be measured is listed in *problems*."""
    found = {}
    for name in backends:
        progress(f"measuring the peak of {name}")
        try:
            peak = device_peak_of(name, source)
        except DeviceError as error:
            problems.append(str(error))
            continue
        if peak is not None:
            found[name] = peak
    return found


def _table(rows: Sequence[tuple[str, int, Profile]]) -> list[str]:
    head = ("device", "threads", "float32", "int8", "memory", "kernel", "launch", "transfer")
    units = ("", "", "GFLOP/s", "GOP/s", "GB/s", "us", "us", "GB/s")
    table: list[tuple[str, ...]] = [head, units]
    for name, threads, p in rows:
        products = [2 * GIGA * p.rate_of(dtype) for dtype in ("float32", "int8")]
        moved = [GIGA * min(p.memories[-1].rate, 1e15), MICRO * p.kernel, MICRO * p.launch]
        transfer = "-" if math.isinf(p.upload) else f"{GIGA * p.upload:.3g}"
        table.append((name, str(threads or "-"), *(f"{v:.3g}" for v in (*products, *moved)), transfer))
    widths = [max(len(row[k]) for row in table) for k in range(len(head))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
