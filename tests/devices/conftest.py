"""The broken devices of this folder, and the networks of the NPU's tests, are found by its tests."""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "contrib")]
