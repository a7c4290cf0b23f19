"""The README's Python runs as it is written."""

import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.optimized

ROOT = pathlib.Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
def test_the_python_of_the_readme_runs(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    short, plan, long, backend = BLOCKS
    assert len(short.strip().splitlines()) <= 10
    for code in (short, plan, long, backend):
        result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


def test_the_readme_says_things_in_the_promised_order():
    text = (ROOT / "README.md").read_text()
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    assert headings == [
        "byoc",
        "Two commands",
        "What they print",
        "Ten lines of Python",
        "Files from others",
        "Where should it run?",
        "C to take away",
        "The long way",
        "Bring your own backend",
        "Code written for TVM's Relay",
        "Fuzzing",
        "Layout of the repository",
    ]
