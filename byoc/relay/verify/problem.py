"""What the checks of this package raise: one sentence with the place, from which the verifier makes its error."""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.relay.analysis.operator_calls import located
from byoc.relay.expr import Call, Function, Var


class ProblemError(Exception):
    """A law that a module does not keep. It does not leave this package."""


def place(node: RelayExpr, function: str) -> str:
    """``nn.relu (node Relu_3) in @main``: where a problem is."""
    return f"{title(node)}{located(node)} in @{function}"


def title(node: RelayExpr) -> str:
    """What a node is called in a sentence."""
    if isinstance(node, Call):
        callee = node.op
        return callee.name if isinstance(callee, Op) else f"a call of {title(callee)}"
    if isinstance(node, Var):
        return f"%{node.name_hint}"
    if isinstance(node, Function):
        name = node.attrs.get("Composite") or node.attrs.get("global_symbol")
        return f"the function {name}" if name else "a function"
    name = getattr(node, "name_hint", None)
    return f"@{name}" if name else f"a {type(node).__name__}"
