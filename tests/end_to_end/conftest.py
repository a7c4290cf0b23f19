"""Makes ``fuzz``, which is not installed, importable: pytest's importlib mode adds no folder."""

from __future__ import annotations

import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[2])]

from artifact_runner import artifact_runner  # noqa: E402, F401 - a fixture
