"""Tests here share modules that are no tests themselves."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent))
