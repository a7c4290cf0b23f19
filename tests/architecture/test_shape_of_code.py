"""Sizes of files and functions, documentation, and names; exceptions are named here."""

import ast
import pathlib

from tools.health.shape import BESIDE as BESIDE_FOLDERS
from tools.health.shape import MANY, files_by_folder, parameters
from tools.health.sources import nodes, tree

ROOT = pathlib.Path(__file__).parents[2]
CODE = [p for folder in ("byoc", "codegen", "runtime", "contrib") for p in sorted((ROOT / folder).rglob("*.py"))]
FILE_LINES, FUNCTION_LINES = 400, 60
FUNCTIONS_OF_MANY, MOST_PARAMETERS = 24, 14  # both may only fall
LARGE_FILES: dict[str, str] = {}  # path -> why
LARGE_FUNCTIONS: dict[str, str] = {}  # path::name -> why
BESIDE = [p for folder in BESIDE_FOLDERS for p in sorted((ROOT / folder).rglob("*.py"))]  # not installed
BAD_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handler"}


def functions(module):
    return (*nodes(module, ast.FunctionDef), *nodes(module, ast.AsyncFunctionDef))


def relative(path):
    return str(path.relative_to(ROOT))


def test_files_are_small():
    large = {relative(p): len(p.read_text().splitlines()) for p in (*CODE, *BESIDE)}
    assert {p: n for p, n in large.items() if n > FILE_LINES and p not in LARGE_FILES} == {}


def body_lines(function):
    """The lines below the signature, of which the formatter writes one for each parameter."""
    return function.end_lineno - function.body[0].lineno + 1


def test_functions_fit_the_eye():
    large = {
        f"{relative(p)}::{f.name}": body_lines(f)
        for p in (*CODE, *BESIDE)
        for f in functions(tree(p))
        if body_lines(f) > FUNCTION_LINES
    }
    assert {n: size for n, size in large.items() if n not in LARGE_FUNCTIONS} == {}


def test_few_functions_have_many_parameters():
    found = parameters()
    assert len(found) <= FUNCTIONS_OF_MANY, f"{len(found)} functions have {MANY} parameters or more: {found}"
    assert found[0][0] <= MOST_PARAMETERS, found[0]


def test_every_module_says_what_it_is():
    assert [relative(p) for p in (*CODE, *BESIDE) if tree(p).body and not ast.get_docstring(tree(p))] == []


def test_every_public_function_and_class_is_documented():
    missing = []
    for path in CODE:
        for node in tree(path).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                if not ast.get_docstring(node) and not is_overload(node):
                    missing.append(f"{relative(path)}::{node.name}")
    assert missing == []


def is_overload(node):
    return any(isinstance(d, ast.Name) and d.id == "overload" for d in getattr(node, "decorator_list", []))


def test_every_signature_of_a_public_function_is_typed():
    missing = []
    for path in CODE:
        for node in tree(path).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if node.returns is None or any(a.annotation is None for a in arguments):
                    missing.append(f"{relative(path)}::{node.name}")
    assert missing == []


def test_no_file_has_a_name_that_says_nothing():
    assert [relative(p) for p in (*CODE, *BESIDE) if p.stem in BAD_NAMES] == []


def test_no_exception_is_swallowed_bare():
    bare = [
        f"{relative(p)}:{node.lineno}" for p in CODE for node in nodes(tree(p), ast.ExceptHandler) if node.type is None
    ]
    assert bare == []


def test_no_unfinished_business_is_left_in_the_code():
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
    assert [relative(p) for p in CODE if any(w in p.read_text() for w in words)] == []


def test_arrays_are_made_contiguous_by_a_function_that_keeps_their_rank():
    """``np.ascontiguousarray`` makes a vector of a scalar; ``np.asarray(a, order="C")`` does not."""
    assert [relative(p) for p in CODE if "ascontiguousarray" in p.read_text()] == []


def test_no_folder_has_more_than_25_files():
    assert [(str(folder), count) for folder, count in files_by_folder().items() if count > 25] == []
