"""What ruff finds: rules broken, and files that its format would change."""

from __future__ import annotations

import json
import subprocess
import sys

from tools.health.sources import ROOT


def findings() -> int:
    """How many findings ``ruff check`` has."""
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--output-format=json", "."], **_HERE)
    return len(json.loads(done.stdout))


def unformatted() -> int:
    """How many files ``ruff format`` would change."""
    done = subprocess.run([sys.executable, "-m", "ruff", "format", "--check", "."], **_HERE)
    return sum(line.startswith("Would reformat:") for line in done.stdout.splitlines())


_HERE: dict[str, object] = {"cwd": ROOT, "capture_output": True, "text": True}
