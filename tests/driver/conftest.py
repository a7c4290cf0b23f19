"""Tests here share backends that are no tests themselves."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
