"""One class name means one thing; those that stand for two are listed with why; no house words, no codes for names."""

import ast
import re
from collections import defaultdict

from tools.health.sources import ROOT, modules, nodes, nodes_by_class, tree

OF_TVM = "TVM's own name, or the mirror of one"
SHARED = {
    "AvgPool2DArguments": "the same operator, quantized",
    "BatchNormArguments": "the same operator, and its reference in the annex",
    "Constant": OF_TVM,
    "Conv2DArguments": "the same operator, quantized",
    "DataAndKernel": "the same operator, quantized",
    "If": OF_TVM,
    "Var": OF_TVM,
}
# where the field has words of its own
HOUSE_WORDS = set("question questions heat laboratory tell teller ways told untold".split())
FIELDS_OWN = {"CACHE_WAYS"}  # of an associative cache
CODE = re.compile(r"^ *def (test_[A-H]\d{1,2}_|test_[a-h]\d{1,2}_)", re.MULTILINE)


MOST_ALIASES = 82  # write the new number here when there are fewer


def classes() -> dict[str, list[str]]:
    """The modules that define each public class."""
    found = defaultdict(list)
    for name, path in modules().items():
        if name.startswith("byoc.compat."):  # TVM's names once more
            continue
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    return found


def aliases(module: ast.Module) -> set[str]:
    """The public names that a module gives to types: ``Shape = tuple[int, ...]``, ``Value = int | str``."""
    made = [node for node in module.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    types = [m for m in made if isinstance(m.value, ast.Subscript) or _is_union(m.value)]
    named = {node.targets[0].id for node in types}
    return {name for name in named if name[0].isupper() and not name.isupper()}


def _is_union(value: ast.expr) -> bool:
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)


def test_a_class_name_is_defined_in_one_module():
    found = classes()
    several = {name: where for name, where in found.items() if len(where) > 1}
    assert {name: where for name, where in several.items() if name not in SHARED} == {}
    assert [name for name in SHARED if name not in several] == [], "no longer shared: take it from the list"


def test_types_are_not_given_the_names_of_classes_elsewhere():
    known = classes()
    found = [
        f"{name}: {alias}"
        for name, path in modules().items()
        if not name.startswith("byoc.compat.")
        for alias in sorted(aliases(tree(path)) & known.keys())
    ]
    assert len(found) <= MOST_ALIASES, "name the type by what it is for:\n" + "\n".join(found)
    assert len(found) == MOST_ALIASES, f"there are {len(found)} now: lower MOST_ALIASES"
    words = {"Function", "Program", "Region", "Group", "Kernel", "Plan", "Machine", "Graph", "Backend", "Verdict"}
    assert [one for one in found if one.split(": ")[1] in words] == []


def test_an_alias_is_found():
    assert aliases(ast.parse("Shape = tuple[int, ...]\nValue = int | str\nLIMIT = A | B\nx = a[0]")) == {
        "Shape",
        "Value",
    }


def identifiers(module: ast.Module) -> set[str]:
    """What a module defines or uses: classes, functions, variables, parameters, attributes; not ``file.tell()``."""
    calls = (call for call in nodes(module, ast.Call) if not call.args)
    of_files = {call.func for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "tell"}
    fields = {kind: {"name", "id", "attr", "arg"}.intersection(kind._fields) for kind in nodes_by_class(module)}
    named = ((node, field) for kind in fields for field in fields[kind] for node in nodes(module, kind))
    return {s for node, field in named if isinstance(s := getattr(node, field), str) and node not in of_files}


def test_names_are_the_fields_own_words():
    found = {
        name: sorted(bad)
        for name, path in modules().items()
        if (
            bad := {
                i for i in identifiers(tree(path)) - FIELDS_OWN if HOUSE_WORDS & set(re.findall("[a-z]+", i.lower()))
            }
        )
    }
    assert found == {}


def test_tests_are_named_by_what_they_show():
    named = [
        f"{path.relative_to(ROOT)}::{name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in CODE.findall(path.read_text(encoding="utf-8"))
    ]
    assert named == []
    assert CODE.findall("    def test_B12_rows():\n") == ["test_B12_"]
