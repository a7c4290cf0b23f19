"""Type errors and ignores do not grow; the packages that have no strict error keep none."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
STRICT = ("ir", "te", "partition", "driver", "runtime", "codegen")


def test_the_strict_packages_may_have_no_error():
    limits = json.loads((ROOT / "tools/health/type_limits.json").read_text())
    assert {p: n for p, n in limits["strict"].items() if p in STRICT} == {}


def test_editors_and_mypy_are_led_to_the_packages_beside_byoc():
    done = subprocess.run(
        [sys.executable, "-m", "tools.health.types", "--tree"], cwd=ROOT, capture_output=True, text=True
    )
    tree = pathlib.Path(done.stdout.strip())
    assert all((tree / "byoc" / name / "__init__.py").is_file() for name in ("codegen", "contrib", "runtime", "ir"))
    relative = tree.relative_to(ROOT).as_posix()
    assert f'extraPaths = ["{relative}"]' in (ROOT / "pyproject.toml").read_text()
    assert f"mypy_path = $MYPY_CONFIG_FILE_DIR/{relative}\n" in (ROOT / "mypy.ini").read_text()


@pytest.mark.slow
def test_there_are_no_more_type_errors_and_ignores_than_were_reached():
    done = subprocess.run(
        [sys.executable, "-m", "tools.health.types", "--gate"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
