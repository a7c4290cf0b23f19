"""Lets the tests of this folder share their brute force and their random problems."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
