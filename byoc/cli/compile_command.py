"""``byoc compile``: from a model to an artefact.

A model that is in the cache folder is written without loading the compiler.
"""

from __future__ import annotations

import argparse
import importlib
import os
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from byoc.cli.flags.option_values import AVAILABLE
from byoc.cli.report.progress import StageProgress
from byoc.cli.report.quantization_text import quantization_lines
from byoc.driver.compiler.entry import compile as compile_model
from byoc.driver.options import CompileRequest
from byoc.errors import UserError
from byoc.options.declaration import part_of
from byoc.options.flags import add_flags, flag_of, given_options
from byoc.partition.options import CutOptions, PlacingOptions
from byoc.runtime.core.strict_json import list_of, mapping_of
from byoc.runtime.region.record import Fallback

if TYPE_CHECKING:
    from byoc.partition.plan.plan import Plan

HELP = "compile an ONNX model into an artefact"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc compile``."""
    command.add_argument("model", help="the ONNX file")
    command.add_argument("-o", "--output", help="the artefact to write (default: the model's name with .byoc, here)")
    add_flags(command, "compile", CompileRequest, PlacingOptions)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Compile and save. Raises UserError with one sentence."""
    output = output_path(arguments.model, arguments.output)
    given = {**given_options(arguments, CompileRequest), **made_plan(arguments)}
    start = time.perf_counter()
    with StageProgress(quiet=arguments.json) as progress:
        library = compile_model(arguments.model, **given, progress=progress)
        progress("writing the artefact")
        library.save(output)
    seconds = time.perf_counter() - start
    size = output.stat().st_size
    data = {"output": str(output), "bytes": size, "seconds": round(seconds, 3), **library.report}
    reporters = (
        control_lines,
        half_lines,
        replanned_lines,
        origin_lines,
        fallback_lines,
        deviation_lines,
        quantization_lines,
        tuning_lines,
        region_note_lines,
    )
    notes = "".join(lines(library.report) for lines in reporters)
    plan = library.report["plan_text"]
    return data, f"{plan}\n{notes}\nwrote {output} ({size:,} bytes) in {seconds:.1f} s", 0


def made_plan(arguments: argparse.Namespace) -> dict[str, Any]:
    """The plan where the command line says how to make one, with the options of the cut as they are without it.

    Raises UserError for a file beside options that make a plan, and for what cannot be planned.
    """
    asked = asked_placing(arguments)
    if not asked:
        return {}
    if arguments.plan is not None:
        raise UserError(f"--plan {arguments.plan}: the plan says where operators go already; leave out {asked[0]}")
    plan: Plan = importlib.import_module("byoc.cli.plan_command").plan_from_arguments(arguments)[1]
    return {**part_of(PlacingOptions(), CutOptions), "configuration": None, "plan": plan}


def asked_placing(arguments: argparse.Namespace) -> list[str]:
    """The flags of placing, but ``--exclude``, that are given and not as they are where nobody gives them."""
    given = given_options(arguments, PlacingOptions)
    usual = PlacingOptions()
    return [
        flag_of(name, PlacingOptions) for name, v in given.items() if name != "exclude" and v != getattr(usual, name)
    ]


def control_lines(report: Mapping[str, object]) -> str:
    """Which parts of a model with control flow are cut, each with its plan; else empty."""
    text = ""
    for each in list_of(report.get("control_flow", []), "control_flow"):
        function = mapping_of(each, "control_flow")
        text += f"\n{function['symbol']} runs on {function['runs on']}; its parts are compiled as a model is:\n"
        for name, part in sorted(mapping_of(function["parts"], "parts").items(), key=lambda p: (len(p[0]), p[0])):
            own = mapping_of(part, name)
            plan = f"{own['plan_text']}\n{control_lines(own)}"
            text += f"\n  {name}\n{textwrap.indent(plan, '    ')}"
    return text


def tuning_lines(report: Mapping[str, object]) -> str:
    """What tuning did; else empty."""
    tuning = mapping_of(report.get("tuning", {}), "tuning")
    return f"\n{tuning['text']}\n" if tuning else ""


def replanned_lines(report: Mapping[str, object]) -> str:
    """The targets that were planned without, and why; else empty."""
    losses = [mapping_of(loss, "replanned") for loss in list_of(report.get("replanned", ()), "replanned")]
    rows = "".join(f"  {loss['target']} ({loss['stage']}): {loss['error']}\n" for loss in losses)
    return f"\nplanned again without:\n{rows}" if rows else ""


def origin_lines(report: Mapping[str, object]) -> str:
    """The regions that should have a version for the host and have none, and why; else empty."""
    fallback = mapping_of(report.get("fallback", {}), "fallback")
    rows = "".join(f"  {symbol}: {reason}\n" for symbol, reason in fallback.items() if reason != AVAILABLE)
    lost = list_of(report.get("fallbacks", []), "fallbacks")
    gone = "".join(f"  {Fallback.from_json(record, 'fallbacks')}\n" for record in lost)
    gone = f"\nregions that the host computes, since their backends failed:\n{gone}" if gone else ""
    return gone + (f"\nregions that cannot fall back:\n{rows}" if rows else "")


def fallback_lines(report: Mapping[str, object]) -> str:
    """How the host runs the model where not as one call on whole tensors, and why: functions on numpy kernels, a model
    node by node, a batch item by item; else empty.
    """
    reasons = mapping_of(report.get("host_fallbacks", {}), "host_fallbacks")
    by_node = report.get("node_by_node")
    whole = f"\nthe model runs node by node, not by one native call: {by_node}\n" if by_node else ""
    batch = report.get("item_by_item")
    whole += f"\na batch of {batch} is computed item by item, each as a batch of one\n" if batch else ""
    if not reasons:
        return whole
    rows = "".join(f"  {symbol}: {reason}\n" for symbol, reason in reasons.items())
    return f"\nhost functions on numpy kernels, for which no code is generated:\n{rows}{whole}"


def deviation_lines(report: Mapping[str, object]) -> str:
    """What targets compute otherwise than ONNX, as their backends say; else empty."""
    deviations = report.get("deviations")
    rows = deviations.items() if isinstance(deviations, Mapping) else ()
    lines = "".join(f"  {target}: {text}\n" for target, texts in rows for text in texts)
    return f"\nwhat targets compute otherwise than ONNX:\n{lines}" if lines else ""


def half_lines(report: Mapping[str, object]) -> str:
    """Which products take halves, by target, where fp16 was asked for; which stay in float32 there at bf16 and int8."""
    found = (report.get(name) for name in ("half_precision", "float32_products"))
    return "".join(f"\n{part['text']}" for part in found if isinstance(part, Mapping) and part.get("text"))


def region_note_lines(report: Mapping[str, object]) -> str:
    """What backends say of their regions (memory, products, the cost model), where they do; else empty."""
    regions = report.get("regions")
    listed = [r for r in regions if isinstance(r, dict)] if isinstance(regions, list) else []
    rows = "".join(f"  {r['region']}: {note}\n" for r in listed for note in r.get("region_notes", ()))
    return f"\nwhat backends say of regions:\n{rows}" if rows else ""


def output_path(model: str, output: str | None) -> Path:
    """Where the artefact goes. Raises UserError, before any work, for a place that cannot be written."""
    path = Path(output or f"{Path(model).stem or 'model'}.byoc")
    if path.is_dir():
        raise UserError(f"{path}: this is a folder; name the artefact, as in --output {path / 'model.byoc'}")
    if not path.parent.is_dir():
        raise UserError(f"{path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{path}: the folder {path.parent} cannot be written; choose another with --output")
    if path.exists() and Path(model).exists() and path.samefile(model):
        raise UserError(f"{path}: this is the model itself; choose another name with --output")
    return path
