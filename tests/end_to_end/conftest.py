"""Makes ``random_models`` and what it draws from importable: pytest's importlib mode adds no folder."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from artifact_runner import artifact_runner  # noqa: E402, F401 - a fixture
