"""Makes ``pass_texts``, which reads the files of pass tests, importable: pytest's importlib mode adds no folder."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
