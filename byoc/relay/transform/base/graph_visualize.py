"""GraphVisualize: the module as DOT text, in a folder or in the log, wherever the pass stands. Source: Paddle Lite's
``graph_visualize_pass`` (``lite/core/optimizer/mir/graph_visualize_pass.cc``).

An operator is a yellow box, a tensor an ellipse, and boxes touch ellipses alone. A function of the module is a cluster,
a region (a function with ``Compiler``) one whose boxes have a colour of their own. The module is left as it is; the
same module gives the same bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from byoc.errors import UserError
from byoc.ir.dot import quoted, region_colour
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_context import register_config_option
from byoc.ir.passes.pass_info import Law
from byoc.ir.passes.transform import ModulePass, PassContext, PassInfo
from byoc.ir.span import span_names
from byoc.relay.expr import Call, Constant, Function, Var
from byoc.relay.traverse import children, post_order

FOLDER = "relay.graph_visualize.folder"
YELLOW, WHITE, GREY = "#fff3b0", "#ffffff", "#eeeeee"
LOG = logging.getLogger("byoc.graph_visualize")

register_config_option(FOLDER, str)


def GraphVisualize(folder: str | None = None) -> ModulePass:
    """The pass that writes DOT to the next ``graph_000.dot`` in *folder*, or to the log ``byoc.graph_visualize``.

    Without *folder* the option ``relay.graph_visualize.folder`` of the context names it. It may stand anywhere in a
    list of passes, any number of times; by name it is ``graph_visualize``. Raises UserError where the folder cannot be
    written.
    """

    def show(mod: IRModule, ctx: PassContext) -> IRModule:
        text = module_dot(mod)
        where = folder or ctx.config.get(FOLDER)
        if where is None:
            LOG.info("%s", text)
        else:
            _write(Path(str(where)), text)
        return mod

    return ModulePass(show, PassInfo("GraphVisualize", ends=(), law=Law("the module is only looked at")))


def _write(folder: Path, text: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = sum(1 for _ in folder.glob("graph_*.dot"))
        (folder / f"graph_{number:03}.dot").write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"GraphVisualize: {folder} cannot be written: {error.strerror or error}") from error


def module_dot(mod: IRModule) -> str:
    """DOT text of *mod*: a cluster for each function, in the order of the module."""
    drawing = _Drawing()
    for number, (var, func) in enumerate(mod.functions.items()):
        if isinstance(func, Function):
            drawing.function(number, var.name_hint, func)
    return drawing.text()


class _Drawing:
    """Boxes and ellipses, numbered over the whole module."""

    def __init__(self) -> None:
        self._lines = ["digraph module {", '  node [style=filled, fontname="sans-serif"];']
        self._count = self._regions = 0

    def text(self) -> str:
        return "\n".join([*self._lines, "}", ""])

    def function(self, number: int, name: str, func: Function) -> None:
        """The cluster of one function."""
        target = func.attrs.get("Compiler")
        fill = YELLOW if target is None else region_colour(self._regions)
        self._regions += target is not None
        title = name if target is None else f"{name}: {target}"
        self._lines += [f"  subgraph cluster_{number} {{", f"    label={quoted(title)};"]
        value: dict[RelayExpr, str] = {}
        edges: list[str] = []
        for node in (*func.params, *post_order(func.body, _parts)):
            if node in value or isinstance(node, (Op, GlobalVar)):
                continue
            if isinstance(node, (Var, Constant)):
                shape = GREY if isinstance(node, Constant) else WHITE
                title = f"%{node.name_hint}" if isinstance(node, Var) else "constant"
                value[node] = self._ellipse(title, node, shape)
                continue
            box = self._node("box", _label(node), fill)
            edges += [f"{value[part]} -> {box};" for part in _parts(node) if part in value]
            value[node] = self._ellipse("", node, WHITE)
            edges.append(f"{box} -> {value[node]};")
        self._lines += [f"    {edge}" for edge in edges]
        self._lines.append("  }")

    def _ellipse(self, title: str, node: RelayExpr, fill: str) -> str:
        ty = "" if node._checked_type is None else str(node._checked_type)
        return self._node("ellipse", f"{title}\n{ty}".strip(), fill)

    def _node(self, shape: str, label: str, fill: str) -> str:
        name = f"n{self._count}"
        self._count += 1
        self._lines.append(f"    {name} [shape={shape}, fillcolor={quoted(fill)}, label={quoted(label)}];")
        return name


def _parts(node: RelayExpr) -> Sequence[RelayExpr]:
    """What *node* is computed from; a function that it calls, or is, is one with it."""
    if isinstance(node, Call):
        return node.args if isinstance(node.op, (Op, Function, GlobalVar)) else (node.op, *node.args)
    return () if isinstance(node, Function) else children(node)


def _label(node: RelayExpr) -> str:
    kind = type(node).__name__
    if isinstance(node, Call):
        callee = node.op
        if isinstance(callee, Op):
            kind = callee.name
        elif isinstance(callee, GlobalVar):
            kind = f"@{callee.name_hint}"
        elif isinstance(callee, Function):
            kind = str(callee.attrs.get("Composite", "fused" if "Primitive" in callee.attrs else "function"))
    return "\n".join([kind, ", ".join(span_names(node.span))]).strip()
