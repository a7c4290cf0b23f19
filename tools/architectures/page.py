"""The page ``docs/support/architectures.md``, from the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version

from .results import FILES, Row, verdict_of

AGREES = "agrees"
OURS = {  # verdicts that count, and what columns of the page call them
    AGREES: "agree",
    "agrees, its choices given": "choices given",
    "agrees, its random numbers given": "numbers given",
    "ill conditioned": "ill conditioned",
    "differs": "differ",
    "refused": "refused",
    "byoc failed": "byoc failed",
}
HEAD = """# Architectures of `transformers`

Whether what PyTorch's exporter writes of an architecture of `transformers` computes what ONNX Runtime computes of it,
to 1e-4 of an output's range: a tiny model of the base class of each kind of configuration, with random weights,
exported with fixed sizes and with free ones (batch, lengths, image sides: those at which PyTorch's own model runs at
other sizes), compiled for `c` (with `-O1`), and run on the same inputs; with free sizes at the exported ones and at two
others.
What differs is looked at once more. *Choices given*: the model chooses (`TopK`) among scores that are equal but for
their last bits; with ONNX Runtime's choice as an input of both, the scores and all outputs agree to the same 1e-4.
*Numbers given*: it draws random numbers, which are an input likewise. *Ill conditioned*: errors of the size of one
rounding of float32, put into what each node computes, move ONNX Runtime's own output as far (`fuzz/disturbance.py`), or
ONNX's reference gives what byoc gives. These are counted apart, and not among those that agree.
*Not exported* and *ONNX Runtime failed* say nothing of byoc and are counted apart, and so are architectures of which
the rules of `tools/architectures/shrink.py` and `inputs.py` make no tiny model.

Made by `python -m tools.architectures FOLDER --page docs/support/architectures.md` from the results in FOLDER, which
`python -m tools.architectures FOLDER` adds to; do not edit.
"""


def page(rows: Mapping[str, Row], known: int) -> str:
    """The page of *rows* by name, of the *known* architectures that there are."""
    found = sorted(rows.values(), key=lambda row: str(row["name"]))
    made = [row for row in found if "not_made" not in row]
    parts = [HEAD, tried(found, known), counts(made), on_numpy(made), disagreements(made)]
    parts += [listed("Not exported, or ONNX Runtime failed", made, not_ours)]
    parts += [listed("No tiny model", found, lambda row: reasons(row, "not_made"))]
    names = ", ".join(f"`{row['model']}`" for row in made if all(verdict_of(row, f) == AGREES for f in FILES))
    parts += [f"## Agree with fixed and with free sizes\n\n{names}.\n"]
    return "\n".join(part for part in parts if part)


def tried(rows: list[Row], known: int) -> str:
    """How many architectures the page is about."""
    made = sum("not_exported" in row for row in rows)
    shown = (part.get("versions") for row in rows for part in (row, *(row.get(f) or {} for f in FILES)))
    packages = "; ".join(dict.fromkeys(str(found) for found in shown if found)) or versions()
    order = ", in an order of chance" if len(rows) < known else ""
    tried_of = f"{packages}: {len(rows)} architectures of {known} were tried{order}"
    return f"{tried_of}; of {made} a tiny model was made, of {len(rows) - made} none, or not in the time limit.\n"


def versions() -> str:
    """The packages that results are of."""
    return ", ".join(f"{name} {version(name)}" for name in ("transformers", "torch", "onnxruntime"))


def counts(rows: list[Row]) -> str:
    """How many agree, of those that were exported and that ONNX Runtime runs."""
    lines = [f"| sizes | exported and run | {' | '.join(OURS.values())} | agree, % |"]
    lines.append(f"|---|--:{'|--:' * len(OURS)}|--:|")
    for name in FILES:
        verdicts = Counter(verdict_of(row, name) for row in rows)
        total = sum(verdicts[v] for v in OURS)
        share = f"{100 * verdicts[AGREES] / total:.1f}" if total else ""
        lines.append(f"| {name} | {total} | {' | '.join(str(verdicts[v] or '') for v in OURS)} | {share} |")
    return "\n".join(lines) + "\n"


def on_numpy(rows: list[Row]) -> str:
    """Of how many models some functions run on numpy kernels, and the first reason of each, where results say so."""
    shown = []
    for name in FILES:
        asked = sum("on_numpy" in (row.get(name) or {}) for row in rows)
        first = Counter(cause(row[name]["on_numpy"][0]) for row in rows if (row.get(name) or {}).get("on_numpy"))
        causes = ", ".join(f"{why} ({count})" for why, count in first.most_common())
        total = sum(first.values())
        shown.append(
            f"With {name} sizes {total} of {asked} models have functions on numpy kernels, of which the first is: "
            f"{causes}."
        )
    return "\n".join(shown) + "\n"


def cause(shown: str) -> str:
    """The operator without generated code, or that a size is not known before it is computed."""
    why = shown.partition(": ")[2]
    return f"`{why.split()[0]}`" if "no tensor expression" in why else "a size known only when the model runs"


def disagreements(rows: list[Row]) -> str:
    """A table of what does not agree."""
    lines = ["## Not simply in agreement\n", "| class | sizes | verdict | reason |", "|---|---|---|---|"]
    for row in rows:
        for name in FILES:
            verdict = verdict_of(row, name)
            if verdict in OURS and verdict != AGREES:
                lines.append(f"| `{row['model']}` | {name} | {verdict} | {cell(row[name]['reason'])} |")
    return "\n".join(lines) + "\n" if len(lines) > 3 else "## Not simply in agreement\n\nNone.\n"


def not_ours(row: Row) -> list[str]:
    """What of *row* says nothing of byoc."""
    shown = [f"{name}: {why}" for name, why in (row.get("not_exported") or {}).items()]
    shown += [f"{f}: ONNX Runtime: {row[f]['reason']}" for f in FILES if verdict_of(row, f) == "ONNX Runtime failed"]
    return shown + [f"export {why}" for why in reasons(row, "lost") if not any(f in row for f in FILES)]


def reasons(row: Row, key: str) -> list[str]:
    """The reason under *key*, if there is one."""
    return [str(row[key])] if row.get(key) else []


def listed(title: str, rows: Iterable[Row], shown: Callable[[Row], list[str]]) -> str:
    """A table of the rows that have something to report."""
    found = [(row, shown(row)) for row in rows]
    lines = [f"| `{row['model']}` | {cell('; '.join(why))} |" for row, why in found if why]
    return f"## {title}\n\n| class | reason |\n|---|---|\n" + "\n".join(lines) + "\n" if lines else ""


def cell(text: str) -> str:
    """A reason as one cell of a table."""
    short = " ".join(text.split())
    return (short if len(short) <= 160 else short[:157] + "...").replace("|", "\\|").replace("<", "&lt;")
