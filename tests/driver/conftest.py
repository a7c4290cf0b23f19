"""Tests here share backends that are no tests themselves."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent))
sys.path.append(str(pathlib.Path(__file__).parents[1] / "contrib"))
