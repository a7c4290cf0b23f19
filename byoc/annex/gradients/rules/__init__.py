"""Gradients of operators: ``FPrimalGradient``, a rule ``(call, gradient of its result) -> gradients of its arguments``.

The call is typed. A tuple argument gets a tuple of gradients. Importing this package registers all rules; each stands
in the file of its family. Source: ``tvm.relay.op._tensor_grad``.
"""

from byoc.annex.gradients.rules import arithmetic, products, reduction, selection, shaping, unary, windows
from byoc.annex.gradients.rules.rules import GradientRule, gradient_rule

__all__ = [
    "GradientRule",
    "arithmetic",
    "gradient_rule",
    "products",
    "reduction",
    "selection",
    "shaping",
    "unary",
    "windows",
]
