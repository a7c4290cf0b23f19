"""``python -m tools.architectures FOLDER``: try architectures, and add a line for each to ``FOLDER/results.jsonl``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import transformers

from .build import NotMade
from .catalogue import Architecture, architectures, chosen
from .export import export
from .judge import judge
from .page import page, versions
from .pool import in_processes
from .results import FILES, Row, add, results, summary
from .warm import warm


def main() -> None:
    """Try what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tools.architectures", description=__doc__)
    parser.add_argument("folder", type=Path, help="for exported files and results.jsonl")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names or classes, as a shell's")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300, help="the time limit of one architecture")
    parser.add_argument("--seed", type=int, help="shuffle the architectures")
    parser.add_argument("--most", type=int, help="try no more than this many")
    parser.add_argument("--again", action="store_true", help="judge exported files once more instead of going on")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the results as a page, and try nothing")
    options = parser.parse_args()
    if options.page is not None:
        options.page.write_text(page(results(options.folder), len(architectures())))
        return
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    done = set() if options.again else set(results(options.folder))
    tasks = [a for a in chosen(options.only, options.seed) if a.name not in done]
    if options.again:
        tasks = [a for a in tasks if (options.folder / a.name / "result.json").exists()]
    tasks = tasks[: options.most]
    work = Trial(options.folder, options.again)
    warm()
    ended = in_processes(tasks, work.run, options.workers, options.seconds, lambda a: options.folder / a.name / "log")
    for i, (task, lost) in enumerate(ended):
        row = work.result(task, lost)
        add(options.folder, row)
        print(f"{i + 1}/{len(tasks)} {task.name}: {summary(row)}", flush=True)


class Trial:
    """Trying one architecture, in its process and after it."""

    def __init__(self, folder: Path, again: bool):
        self.folder, self.again = folder, again

    def run(self, of: Architecture) -> None:
        """Export *of* (or take what was exported) and judge it; each step is written down as soon as it is known."""
        folder = self.folder / of.name
        row: Row = {"name": of.name, "model": of.model, "versions": versions()}
        path = folder / "result.json"
        if self.again:
            row = json.loads(path.read_text())
        else:
            path.unlink(missing_ok=True)
            try:
                row["not_exported"] = export(of, folder)
            except NotMade as err:
                row["not_made"] = str(err)
            path.write_text(json.dumps(row))
        for name in FILES:
            if (folder / f"{name}.json").exists() and name not in (row.get("not_exported") or {}):
                row[name] = {"verdict": "byoc failed", "reason": "its process was lost"}
                path.write_text(json.dumps(row))
                row[name] = judge(folder / f"{name}.onnx", sorted(folder.glob(f"{name}.*.npz"))).row()
                row[name]["free"] = json.loads((folder / f"{name}.json").read_text())
                path.write_text(json.dumps(row))

    def result(self, of: Architecture, lost: str) -> Row:
        """What the process of *of* wrote down, with how it was lost."""
        row: Row = {"name": of.name, "model": of.model}
        with contextlib.suppress(FileNotFoundError):
            row = json.loads((self.folder / of.name / "result.json").read_text())
        return {**row, "lost": lost} if lost else {k: v for k, v in row.items() if k != "lost"}


if __name__ == "__main__":
    main()
