"""The table of a survey, as text and as a section of the page ``docs/support/onnx.md``.

The page has a section for each device (or title), which is written anew by a run of it and left alone by others. It
holds no date and no machine, so that the same code gives the same page; the version of onnx is in it, whose suite
grows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import onnx

from byoc.onnx_backend.coverage import PLACES, Coverage
from byoc.onnx_backend.survey import CONSTANTS, KINDS, SUPPORTED, WRONG, Outcome, Survey

TITLE = "# What byoc computes of ONNX's own tests"
ABOUT = """\
Each case of the suite that comes with the package `onnx` (kinds node, simple, pytorch-converted and
pytorch-operator), by operator. *Passed*: the outputs are the standard's, compared as ONNX's test runner does. *As
constants*: they are where the short lists of numbers (axes, sizes, k) are constants of the model, as exporters write
them; given when the model runs, they are refused. *Tolerated*: the difference is known and harmless, with the reason.
*Refused*: an error of one sentence when the model is read or compiled. *Wrong*: anything else, a crash and more than
the time of `--seconds` included. *On kernels*: of the cases that pass, those with something on numpy kernels instead of
generated code. Beside a device, which kernels ran there is counted as they are launched, and a function that was
compiled for it and launched none is wrong: *on the device*, nothing ran on the host; *in parts*, something did; *on the
host*, the device was given nothing; *nothing to compute*, constants and views were all that the compiler left.

Made by `python -m byoc.onnx_backend.conformance --device NAME --page docs/support/onnx.md`, a section for each
device (`--jobs N` for N processes, `--results FILE.jsonl` to go on where a run was cut off, `--json` for each case with
its reasons, `--title NAME` for the section of another machine's device); do not edit. It needs byoc, `onnx`, a C
compiler, for OPENCL `pyopencl`, and no network: `BYOC_OPENCL_DEVICE=gpu python -m byoc.onnx_backend.conformance
--device OPENCL --jobs 16 --seconds 60 --results gpu.jsonl --short` is a GPU's table."""
SECTIONS = {
    "NUMPY": "the interpreter of the graph language, on numpy kernels",
    "CPU": "generated C",
    "OPENCL": "OpenCL, even integers of a few elements, and by the host what that does not take",
}
KERNELS = "on kernels"  # cases of which something runs on numpy kernels
OF_SEVERAL = 3  # cases that are named for one reason


def table(found: Survey) -> str:
    """A line for each operator and its reasons below, for a terminal."""
    groups = found.by_operator()
    columns = _columns(found)
    width = max([len(name) for name in groups] + [len("operator")])
    lines = ["  ".join(["operator".ljust(width), "cases", *columns])]
    for name, outcomes in groups.items():
        counts = _counted(outcomes)
        numbers = [str(len(outcomes)).rjust(5), *(str(counts[kind] or "").rjust(len(kind)) for kind in columns)]
        lines.append("  ".join([name.ljust(width), *numbers]).rstrip())
        lines += [f"    {text}" for text in [*_reasons(outcomes), *_left(outcomes)]]
    return "\n".join([*lines, "", short_table(found)])


def short_table(found: Survey) -> str:
    """How many cases are of each kind, what is wrong, what generated code computes, and why it does not more."""
    parts = [summary(found)]
    parts += [f"WRONG: {o.case}: {o.reason}" for o in found.outcomes if o.kind == WRONG]
    if found.device != "NUMPY":
        parts += [coverage_text(found), *_table_of_causes(found)]
    return "\n".join(parts)


def summary(found: Survey) -> str:
    """How many cases are of each kind, in a line."""
    counts = found.counts()
    supported, cases = sum(counts[kind] for kind in SUPPORTED), len(found.outcomes)
    plain, most = (f"{100 * number / max(cases, 1):.1f} %" for number in (supported - counts[CONSTANTS], supported))
    share = f"{plain} pass, {most} with those that pass as constants" if counts[CONSTANTS] else f"{plain} pass"
    listed = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    return f"{cases} cases of onnx {onnx.__version__} on {found.device}: {listed} ({share})"


def page(old: str, found: Survey, title: str | None = None) -> str:
    """The page *old*, which may be empty, with the section of *found* written anew.

    It has the name of the device, or *title*, by which another machine's stands beside it.
    """
    sections = {**sections_of(old), title or found.device: section(found)}
    order = [*SECTIONS, *sorted(set(sections) - set(SECTIONS))]
    parts = [f"## {name}\n\n{sections[name]}" for name in order if name in sections]
    return "\n\n".join([TITLE, ABOUT, *parts]) + "\n"


def sections_of(text: str) -> dict[str, str]:
    """The sections of a page by their devices."""
    parts = text.split("\n## ")[1:]
    return {head: body.strip() for head, _, body in (part.partition("\n") for part in parts)}


def section(found: Survey) -> str:
    """What *found* says, as Markdown: the counts, the operators that pass whole, a table of the others."""
    groups = found.by_operator()
    parts = [] if found.device == "NUMPY" else [coverage_text(found), ""]
    columns = _columns(found)
    whole = [name for name, outcomes in groups.items() if all(map(found.whole, outcomes))]
    how = " by generated code alone" if parts else ""
    lines = [
        f"Computed by {SECTIONS[found.device]}.",
        "",
        f"{summary(found)}.",
        "",
        *parts,
        f"{len(whole)} operators pass all their cases{how}: {', '.join(f'`{name}`' for name in whole)}.",
        "",
        "| operator | cases | " + " | ".join(columns) + " | why |",
        "|---|--:|" + "--:|" * len(columns) + "---|",
    ]
    for name, outcomes in groups.items():
        if name in whole:
            continue
        counts = _counted(outcomes)
        numbers = [str(len(outcomes)), *(str(counts[kind] or "") for kind in columns)]
        why = "; ".join(text.replace("|", "\\|") for text in [*_reasons(outcomes), *_left(outcomes)])
        lines.append(f"| `{name}` | {' | '.join(numbers)} | {why} |")
    lines += _table_of_causes(found)
    return "\n".join(lines)


def _columns(found: Survey) -> list[str]:
    """What the table of *found* counts of each operator."""
    beside = PLACES if found.device == "OPENCL" else ()
    return [*KINDS, *([] if found.device == "NUMPY" else [KERNELS]), *beside]


def _counted(outcomes: Sequence[Outcome]) -> Counter[str]:
    """How many of *outcomes* are of each kind, on kernels, and at each place."""
    counts = Counter(o.kind for o in outcomes)
    counts[KERNELS] = on_kernels(outcomes)
    counts.update(o.coverage.where for o in outcomes if o.coverage is not None)
    return counts


def on_kernels(outcomes: Sequence[Outcome]) -> int:
    """How many of *outcomes* have something on numpy kernels."""
    return sum(o.coverage is not None and bool(o.coverage.kernels) for o in outcomes)


def coverage_text(found: Survey) -> str:
    """How much generated code computes, of what it has in some form, in a sentence or two."""
    bar, passing = found.bar(), found.covered()
    share = f"{100 * bar.kernels / max(bar.cases, 1):.1f} %"
    text = (
        f"Of {len(passing)} cases that pass, {bar.cases} have only operators that are generated in some form: "
        f"{bar.kernels} of these ({share}) have nothing on numpy kernels"
    )
    if found.device != "OPENCL":
        return f"{text}."
    places = ", ".join(f"{number} {place}" for place, number in found.places().items())
    device = f"{bar.device} ({100 * bar.device / max(bar.cases, 1):.1f} %)"
    return f"{text}, {device} nothing on the host either. All cases that pass: {places}."


def causes(found: Survey) -> dict[str, Counter[str]]:
    """Why something is not computed by generated code of the device: reason -> the operators of cases, with how many.

    A case counts once for each of its reasons; the names of nodes and the sizes of types are left out.
    """
    counted: dict[str, Counter[str]] = {}
    for outcome, coverage in found.covered():
        for reason in _reasons_left(coverage):
            counted.setdefault(reason, Counter())[outcome.operator] += 1
    return dict(sorted(counted.items(), key=lambda item: (-item[1].total(), item[0])))


def _reasons_left(coverage: Coverage) -> set[str]:
    """Why something of a case is not computed by generated code of the device."""
    reasons = {f"numpy kernels: {_kind_of(text)}" for text in coverage.kernels.values()}
    return reasons | {f"host: {codes}" for codes in coverage.host.values()}


def _left(outcomes: Sequence[Outcome]) -> list[str]:
    """Each such reason once, with the number of cases."""
    found = Counter(r for o in outcomes if o.coverage is not None for r in _reasons_left(o.coverage))
    return [f"{text} ({number})" for text, number in sorted(found.items(), key=lambda item: (-item[1], item[0]))]


def _kind_of(reason: str) -> str:
    return re.sub(r"Tensor\[.*?\), (\w+)\]", r"a tensor of \1", re.sub(r" \(node .*\)$", "", reason))


def _table_of_causes(found: Survey) -> list[str]:
    """Why something is on numpy kernels or on the host, the most frequent first, as a table of Markdown."""
    found_causes = causes(found)
    if not found_causes:
        return []
    lines = ["", "| not computed by generated code of the device | cases | of the operators |", "|---|--:|---|"]
    for reason, operators in found_causes.items():
        named = [f"`{name}`" for name, _ in operators.most_common(OF_SEVERAL)]
        more = f" and {len(operators) - OF_SEVERAL} more" if len(operators) > OF_SEVERAL else ""
        lines.append(f"| {reason} | {operators.total()} | {', '.join(named)}{more} |")
    return lines


def _reasons(outcomes: Sequence[Outcome]) -> list[str]:
    """Each reason once, the most frequent first; what is wrong by the names of its cases."""
    refused = Counter(o.reason for o in outcomes if o.kind not in (WRONG, *SUPPORTED[:2]))
    lines = [f"{text} ({number})" for text, number in sorted(refused.items(), key=lambda item: (-item[1], item[0]))]
    wrong: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.kind == WRONG:
            wrong.setdefault(outcome.reason, []).append(outcome.case)
    for text, names in wrong.items():
        more = f" and {len(names) - OF_SEVERAL} more" if len(names) > OF_SEVERAL else ""
        lines.append(f"WRONG: {text}: {', '.join(names[:OF_SEVERAL])}{more}")
    return lines


__all__ = ["causes", "coverage_text", "page", "section", "sections_of", "short_table", "summary", "table"]
