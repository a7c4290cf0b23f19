"""Passes of ours that walk the graph by a loop of their own, instead of as rules of a rewrite that others share.

Counted are the modules of passes in which a function loops over ``post_order`` (or over a list that it made of it) and
makes expressions in that loop, itself or by functions of the same module.
"""

from __future__ import annotations

import ast

from tools.health.sources import modules, nodes, tree

WALKS = ("post_order", "reverse_post_order", "topological")
MAKERS = frozenset(
    ["Call", "Function", "Let", "Tuple", "TupleGetItem", "If", "rebuild", "typed_rebuild", "with_children"]
)
ROOMS = ("byoc.relay.transform", "byoc.relay.qnn", "byoc.annex")
NO_PASSES = ("byoc.annex.analysis",)


def own_loops() -> list[tuple[str, str]]:
    """Module and function of each such loop."""
    found = []
    for name, path in modules().items():
        if name.startswith(ROOMS) and not name.startswith(NO_PASSES):
            functions = list(nodes(tree(path), ast.FunctionDef))
            makers = makers_among(functions)
            found += [(name, function.name) for function in functions if has_own_loop(function, makers)]
    return found


def makers_among(functions: list[ast.FunctionDef]) -> frozenset[str]:
    """The names by which expressions are made, those of *functions* that call others of them too."""
    makers = MAKERS
    while True:
        more = {f.name for f in functions if any(_called(node) in makers for node in ast.walk(f))}
        if more <= makers:
            return makers
        makers |= more


def has_own_loop(function: ast.FunctionDef, makers: frozenset[str]) -> bool:
    """True where *function* loops over a walk and makes expressions in the loop, by one of *makers*."""
    made = [node for node in ast.walk(function) if isinstance(node, ast.Assign) and _walks(node.value)]
    walked = {target.id for node in made for target in node.targets if isinstance(target, ast.Name)}
    for loop in (node for node in ast.walk(function) if isinstance(node, ast.For)):
        over = _walks(loop.iter) or any(isinstance(n, ast.Name) and n.id in walked for n in ast.walk(loop.iter))
        if over and any(_called(node) in makers for node in ast.walk(loop)):
            return True
    return False


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def _walks(node: ast.AST) -> bool:
    return any(_called(n) in WALKS for n in ast.walk(node))
