"""What the report of a compiled model says beside its plan, as text: where parts of it run otherwise than as hoped.

A model with control flow has parts that are compiled as a model is: what there is to say of each stands under it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from byoc.cli.flags.option_values import AVAILABLE
from byoc.cli.report.quantization_text import quantization_lines
from byoc.runtime.core.strict_json import list_of, mapping_of
from byoc.runtime.region.record import Fallback


def notes_of(report: Mapping[str, object]) -> str:
    """All of it; empty where there is nothing to say."""
    return "".join(lines(report) for lines in _REPORTERS)


def _control_lines(report: Mapping[str, object]) -> str:
    """Which parts of a model with control flow are cut, each with its plan; else empty."""
    text = ""
    for each in list_of(report.get("control_flow", []), "control_flow"):
        function = mapping_of(each, "control_flow")
        text += f"\n{function['symbol']} runs on {function['runs on']}; its parts are compiled as a model is:\n"
        for name, part in sorted(mapping_of(function["parts"], "parts").items(), key=lambda p: (len(p[0]), p[0])):
            own = mapping_of(part, name)
            plan = f"{own['plan_text']}\n{notes_of(own)}"
            text += f"\n  {name}\n{textwrap.indent(plan, '    ')}"
    return text


def _tuning_lines(report: Mapping[str, object]) -> str:
    """What tuning did; else empty."""
    tuning = mapping_of(report.get("tuning", {}), "tuning")
    return f"\n{tuning['text']}\n" if tuning else ""


def _replanned_lines(report: Mapping[str, object]) -> str:
    """The targets that were planned without, and why; else empty."""
    losses = [mapping_of(loss, "replanned") for loss in list_of(report.get("replanned", ()), "replanned")]
    rows = "".join(f"  {loss['target']} ({loss['stage']}): {loss['error']}\n" for loss in losses)
    return f"\nplanned again without:\n{rows}" if rows else ""


def _origin_lines(report: Mapping[str, object]) -> str:
    """The regions that should have a version for the host and have none, and why; else empty."""
    fallback = mapping_of(report.get("fallback", {}), "fallback")
    rows = "".join(f"  {symbol}: {reason}\n" for symbol, reason in fallback.items() if reason != AVAILABLE)
    lost = list_of(report.get("fallbacks", []), "fallbacks")
    gone = "".join(f"  {Fallback.from_json(record, 'fallbacks')}\n" for record in lost)
    gone = f"\nregions that the host computes, since their backends failed:\n{gone}" if gone else ""
    return gone + (f"\nregions that cannot fall back:\n{rows}" if rows else "")


def _fallback_lines(report: Mapping[str, object]) -> str:
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


def _deviation_lines(report: Mapping[str, object]) -> str:
    """What targets compute otherwise than ONNX, as their backends say; else empty."""
    deviations = report.get("deviations")
    rows = deviations.items() if isinstance(deviations, Mapping) else ()
    lines = "".join(f"  {target}: {text}\n" for target, texts in rows for text in texts)
    return f"\nwhat targets compute otherwise than ONNX:\n{lines}" if lines else ""


def _half_lines(report: Mapping[str, object]) -> str:
    """Which products take halves, by target, where fp16 was asked for; which stay in float32 there at bf16 and int8."""
    found = (report.get(name) for name in ("half_precision", "float32_products"))
    return "".join(f"\n{part['text']}" for part in found if isinstance(part, Mapping) and part.get("text"))


def _region_note_lines(report: Mapping[str, object]) -> str:
    """What backends say of their regions (memory, products, the cost model), where they do; else empty."""
    regions = report.get("regions")
    listed = [r for r in regions if isinstance(r, dict)] if isinstance(regions, list) else []
    rows = "".join(f"  {r['region']}: {note}\n" for r in listed for note in r.get("region_notes", ()))
    return f"\nwhat backends say of regions:\n{rows}" if rows else ""


_REPORTERS = (
    _control_lines,
    _half_lines,
    _replanned_lines,
    _origin_lines,
    _fallback_lines,
    _deviation_lines,
    quantization_lines,
    _tuning_lines,
    _region_note_lines,
)
