"""What a vendor's integration takes, in lines of code: those of byoc's own examples."""

import ast

import pytest

from tools.health.sources import ROOT

MOST = 1000
# oneDNN's C interface has no binding for Python, which stands here too, and so does what TVM has of it for Relay
MORE = {"onednn": 2200}
CONTRIB = sorted(p for p in (ROOT / "contrib").iterdir() if p.name not in ("__init__.py", "__pycache__"))


def code_lines(path):
    """The lines of a file with code: neither blank, nor comments, nor docstrings."""
    text = path.read_text()
    lines = set()
    for node in ast.walk(ast.parse(text)):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if isinstance(node, ast.stmt) and not is_text:
            first = node.body[0].lineno - 1 if isinstance(getattr(node, "body", None), list) else node.end_lineno
            lines |= set(range(node.lineno, max(first, node.lineno) + 1))
    return len([k for k in lines if text.splitlines()[k - 1].strip()])


@pytest.mark.parametrize("place", CONTRIB, ids=lambda p: p.name)
def test_an_integration_takes_less_than_a_thousand_lines(place):
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert 0 < sum(map(code_lines, files)) < MORE.get(place.name, MOST)


def test_the_lines_of_a_kernel_library_are_few():
    assert sum(code_lines(ROOT / "contrib" / f"{name}.py") for name in ("blas", "blas_kernels")) < 80
