"""Tests here share a module that is no test itself."""

import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

from injection import Place


@pytest.fixture
def place(tmp_path):
    """Folders for processes of this test, and ways to start them."""
    return Place(tmp_path)
