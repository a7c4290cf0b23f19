"""The results of architectures: one line of JSON each, the last one counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILES = ("fixed", "free")
Row = dict[str, Any]  # as JSON has it


def results(folder: Path) -> dict[str, Row]:
    """The last line of each architecture in *folder*'s ``results.jsonl``, by name."""
    path = folder / "results.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {row["name"]: row for row in rows}


def add(folder: Path, row: Row) -> None:
    """Add a line."""
    with (folder / "results.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def verdict_of(row: Row, name: str) -> str:
    """The verdict on the file *name* of a row; ``""`` where it was not exported."""
    if name not in row or name in (row.get("not_exported") or {}):
        return ""
    return str(row[name]["verdict"])


def summary(row: Row) -> str:
    """A result in one line."""
    shown = [str(row[k]) for k in ("not_made", "not_exported", "lost") if row.get(k)]
    for name in FILES:
        if verdict_of(row, name):
            found = row[name]
            sizes = ",".join(found.get("free", []))
            shown.append(
                f"{name} {found['verdict']} {found['reason'][:200]} numpy={len(found.get('on_numpy', []))} {sizes}"
            )
    return " | ".join(shown)
