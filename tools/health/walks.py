"""Passes of ours that walk the graph by a loop of their own, instead of as rules of a rewrite that others share.

Counted are the modules of ``relay/transform`` and ``relay/quantize`` in which a function loops over ``post_order`` (or
over a list that it made of it) and makes expressions in that loop.
"""

from __future__ import annotations

import ast

from tools.health.sources import modules, tree

WALKS = ("post_order", "reverse_post_order", "topological")
MAKERS = frozenset(["Call", "Function", "Let", "Tuple", "TupleGetItem", "If", "rebuild", "with_children"])
ROOMS = ("byoc.relay.transform", "byoc.relay.qnn.quantize")


def own_loops() -> list[tuple[str, str]]:
    """Module and function of each such loop."""
    found = []
    for name, path in modules().items():
        if not name.startswith(ROOMS):
            continue
        for function in (n for n in ast.walk(tree(path)) if isinstance(n, ast.FunctionDef)):
            made = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and _walks(n.value)]
            walked = {target.id for n in made for target in n.targets if isinstance(target, ast.Name)}
            for loop in (n for n in ast.walk(function) if isinstance(n, ast.For)):
                over = _walks(loop.iter) or any(isinstance(n, ast.Name) and n.id in walked for n in ast.walk(loop.iter))
                if over and any(_called(n) in MAKERS for n in ast.walk(loop)):
                    found.append((name, function.name))
                    break
    return found


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def _walks(node: ast.AST) -> bool:
    return any(_called(n) in WALKS for n in ast.walk(node))
