"""Completes the stubs of facades by the names that follow from what modules define: passes, and builders of operators.

``byoc.relay.transform`` names each pass of its subpackages: each function that is called as the pass which it returns,
so that the host's own forms of a pass (``FuseHostOps``, which makes a ``FuseOps``) are none of them. The facade of a
namespace of operators names each operator's builder, the function that is called as the operator in the module that
registers it: ``nn.relu`` is ``relu`` of ``byoc.relay.op.nn``. Other lines of a stub are written by hand, and stay as
long as the module has the name.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import CodeType, FunctionType

from tools.health.sources import ROOT, modules

PASSES = "byoc.relay.transform"
RETURNED = ("FunctionPass", "ModulePass", "Pass", "Sequential")  # by functions that make passes
OPERATORS = "byoc.relay.op"
ELSEWHERE = {"qnn": "byoc.relay.qnn.op"}  # the facades of namespaces that have none in byoc.relay.op
Names = list[tuple[str, str]]  # each module and what it has


def stubs(made: Mapping[str, Sequence[str]], passes: Names) -> dict[str, str]:
    """The file of each stub to what should stand in it.

    *made* are the operators that each module registers, *passes* those of :func:`passes_made`.
    """
    found = {PASSES: [one for one in passes if one[0].startswith(f"{PASSES}.")], **_builders(made)}
    files = {package: modules()[package].with_suffix(".pyi") for package in found}
    texts = {files[p].relative_to(ROOT).as_posix(): completed(files[p].read_text("utf-8"), found[p]) for p in found}
    return {file: formatted(text, file) for file, text in texts.items()}


def passes_made() -> Names:
    """The functions of the imported modules of ``byoc.relay`` that make passes of their own names."""
    return [
        (module, name)
        for module in sorted(name for name in sys.modules if name.startswith("byoc.relay."))
        for name, value in vars(sys.modules[module]).items()
        if inspect.isfunction(value) and value.__module__ == module and _makes_pass(value)
    ]


def _makes_pass(function: FunctionType) -> bool:
    """Whether *function* says that it returns a pass, to which it gives its own name, or a decorator inside does."""
    returned = function.__annotations__.get("return")  # a text where the module postpones annotations
    codes = [function.__code__, *(c for c in function.__code__.co_consts if isinstance(c, CodeType))]
    named = any(function.__name__ in code.co_consts for code in codes)
    return named and getattr(returned, "__name__", returned) in RETURNED


def _builders(made: Mapping[str, Sequence[str]]) -> dict[str, Names]:
    """The facades of operators, each with the builders of its namespace."""
    found: dict[str, Names] = {}
    for module, operators in made.items():
        for operator in operators:
            space, _, name = operator.rpartition(".")
            facade = ELSEWHERE.get(space, f"{OPERATORS}.{space}".removesuffix("."))
            is_facade = facade in modules() and modules()[facade].with_suffix(".pyi").is_file()
            if is_facade and inspect.isfunction(vars(sys.modules[module]).get(name)):
                found.setdefault(facade, []).append((module, name))
    return found


def completed(text: str, found: Iterable[tuple[str, str]]) -> str:
    """The stub *text* without lines whose module has not the name, and with those that *found* asks for at its end."""
    lines = text.splitlines()
    named = set()
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.ImportFrom) and node.module in sys.modules:
            names = [alias.name for alias in node.names]
            if any(name != "*" and not hasattr(sys.modules[node.module], name) for name in names):
                del lines[node.lineno - 1 : node.end_lineno]
            named.update((node.module, name) for name in names)
    lines += [f"from {module} import {name} as {name}" for module, name in found if (module, name) not in named]
    return "\n".join(lines) + "\n"


def formatted(text: str, file: str) -> str:
    """*text*, sorted and broken as ruff has it in *file*."""
    for command in (["check", "--fix", "--quiet", "--select=I"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, f"--stdin-filename={file}", "-"]
        text = subprocess.run(ruff, cwd=ROOT, input=text, capture_output=True, text=True, check=True).stdout
    return text
