"""``python -m tools.health`` (``make health``): the table of what is measured, and what is wanted.

``--list NAME`` prints what is behind one row. Exit code 0 whatever is found: the gates are in the tests.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tools.health import circles, imports, lint, operator_names, shape, types, walks
from tools.health.sources import ROOT


@dataclass(frozen=True)
class Row:
    """One line of the table: what is measured, what was found, what is wanted, whether that holds, and the details."""

    name: str
    measured: str
    now: str
    wanted: str
    holds: bool
    details: Sequence[str] = ()


def fullest_folder() -> Row:
    """Files in one folder."""
    folders = shape.files_by_folder().most_common()
    most = folders[0][1]
    lines = [f"{count:4} {path.relative_to(ROOT)}" for path, count in folders if count > 20]
    return Row("folders", "files in the fullest folder", str(most), "at most 25", most <= 25, lines)


def package_circles() -> Row:
    """Packages that import each other."""
    found = circles.circles(circles.package_graph())
    sizes = ", ".join(str(len(c)) for c in found) or "none"
    return Row("packages", "packages in cycles, by cycle", sizes, "none", not found, [*circles.explained()])


def file_circles() -> Row:
    """Files that import each other."""
    found = circles.circles(circles.import_graph())
    sizes = ", ".join(str(len(c)) for c in found) or "none"
    return Row("files", "files in cycles, by cycle", sizes, "none", not found, [" ".join(c) for c in found])


def modules() -> Row:
    """Modules that the first compile imports."""
    found = imports.measure()
    count = len(found.modules)
    now = f"{count}; {1000 * found.alone_s:.0f} ms; {found.all_s:.2f} s"
    return Row(
        "imports",
        "modules that compiling the digit classifier imports; import byoc; importing them all",
        now,
        "under 350; 100 ms; 1 s",
        count < 350 and found.alone_s < 0.1 and found.all_s < 1,
        found.modules,
    )


def ruff() -> Row:
    """Findings of ruff."""
    found, changed = lint.findings(), lint.unformatted()
    return Row("lint", "findings of ruff; files not in its format", f"{found}; {changed}", "0; 0", found + changed == 0)


def parameters() -> Row:
    """Functions with many parameters."""
    found = shape.parameters()
    largest = found[0][0] if found else 0
    lines = [f"{count:4} {module}.{name}" for count, module, name in found]
    return Row(
        "parameters",
        f"functions with {shape.MANY} parameters or more; the largest",
        f"{len(found)}; {largest}",
        "under 30; 10",
        len(found) < 30 and largest <= 10,
        lines,
    )


def loops() -> Row:
    """Passes with a loop of their own."""
    found = walks.own_loops()
    lines = [f"{module}.{name}" for module, name in found]
    return Row("loops", "passes with a loop of their own over the graph", str(len(found)), "5", len(found) <= 5, lines)


def operators() -> Row:
    """Hand-kept lists of operators' names."""
    found = operator_names.operator_lists(operator_names.Names.registered())
    lists = [one for one in found if one.is_list]
    lines = [f"{one.file}:{one.line}: {' '.join(one.names)}" for one in lists]
    return Row("operators", "hand-kept lists of operators' names", str(len(lists)), "0", not lists, lines)


STRICT = ("ir", "te", "partition", "driver", "runtime", "codegen")  # packages without an error, even strictly
MOST_IGNORES = 250


def type_errors() -> Row:
    """Errors of mypy, and comments that silence it."""
    found = types.measure()
    strict, plain = sum(found.strict.get(name, 0) for name in STRICT), sum(found.plain.values())
    ignored = sum(found.ignores.values())
    return Row(
        "types",
        f"strict type errors in {', '.join(STRICT)}; plain ones everywhere; ignores",
        f"{strict}; {plain}; {ignored}",
        f"0; 0; at most {MOST_IGNORES}",
        strict == plain == 0 and ignored <= MOST_IGNORES,
        types.table(found).splitlines(),
    )


ROWS: dict[str, Callable[[], Row]] = {
    "operators": operators,
    "types": type_errors,
    "folders": fullest_folder,
    "packages": package_circles,
    "files": file_circles,
    "imports": modules,
    "lint": ruff,
    "parameters": parameters,
    "loops": loops,
}


def table(rows: Sequence[Row]) -> str:
    """The rows as text, in columns."""
    cells = [
        ("measure", "now", "wanted", ""),
        *((r.measured, r.now, r.wanted, "" if r.holds else "not yet") for r in rows),
    ]
    widths = [max(len(row[k]) for row in cells) for k in range(4)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths[:3]), *lines[1:]])


def main() -> None:
    """Print the table, or the details of one row."""
    parser = argparse.ArgumentParser(prog="python -m tools.health", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--list", choices=ROWS, help="print what is behind this row")
    chosen = parser.parse_args().list
    if chosen:
        print("\n".join(ROWS[chosen]().details))
        return
    print(table([row() for row in ROWS.values()]))


if __name__ == "__main__":
    sys.exit(main())
