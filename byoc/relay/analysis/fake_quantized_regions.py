"""Which float operators lie between dequantized tensors and a ``qnn.quantize``.

Such a region is closed: going up from the quantize, every path ends in a ``qnn.dequantize`` or a constant, over calls
of operators, tuples and their fields alone. Source: ``SubgraphExtractor``.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Call, Constant, Tuple, TupleGetItem
from byoc.relay.narrowing import operator_of
from byoc.relay.traverse import children, post_order

QUANTIZE, DEQUANTIZE = "qnn.quantize", "qnn.dequantize"


def region_children(expr: RelayExpr) -> Sequence[RelayExpr]:
    """What of *expr* may belong to its region: nothing above a dequantize, of a quantize the data alone."""
    if calls(expr, DEQUANTIZE):
        return ()
    return expr.args[:1] if calls(expr, QUANTIZE) else children(expr)


def is_closed(expr: RelayExpr, known: Mapping[RelayExpr, bool]) -> bool:
    """True when all that is above *expr* ends in dequantized tensors or constants; *known* says so of its children."""
    if isinstance(expr, Constant):
        return True
    if isinstance(expr, Call) and not isinstance(expr.op, Op):
        return False
    return isinstance(expr, (Call, Tuple, TupleGetItem)) and all(known.get(c, False) for c in region_children(expr))


def region_of(quantize: RelayExpr, leaves: Container[RelayExpr] = ()) -> list[RelayExpr]:
    """The nodes of the region that ends in the call *quantize*, which comes last, each after what it reads.

    What stands above a node of *leaves* is left out.
    """
    return list(post_order(quantize, lambda expr: () if expr in leaves else region_children(expr)))


def list_fake_quantized_op_freqs(mod: IRModule) -> dict[str, int]:
    """How often each operator stands in a fake-quantized region of *mod*, ``qnn.dequantize`` not counted.

    An operator in the regions of several quantizes counts for each. Source:
    ``relay.analysis.list_fake_quantized_op_freqs``.
    """
    counts: dict[str, int] = {}
    for func in mod.functions.values():
        closed: dict[RelayExpr, bool] = {}
        for node in post_order(func):
            closed[node] = is_closed(node, closed)
            if calls(node, QUANTIZE) and closed[node]:
                for inner in region_of(node)[:-1]:
                    if isinstance(inner, Call) and not calls(inner, DEQUANTIZE):
                        name = operator_of(inner).name
                        counts[name] = counts.get(name, 0) + 1
    return counts
