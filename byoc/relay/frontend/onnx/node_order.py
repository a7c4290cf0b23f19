"""Nodes in an order in which each stands behind what it reads.

ONNX asks for that order, and ONNX Runtime for none, so that tools write models without it (onnxruntime's conversion to
float16 appends its casts at the end). Nodes that are in order stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx.scope import NodesToConvert

SHOWN = 5  # nodes of a circle that an error names


def in_order(rest: NodesToConvert, needed: Sequence[set[int]], place: str) -> NodesToConvert:
    """*rest* with its nodes, and their names, in an order in which each can be converted; *needed* is what each needs.

    Raises:
        ImportModelError: for nodes that read each other in a circle, in a sentence that begins with *place*.
    """
    order = _positions(rest, needed, place)
    names = [rest.names[k] for k in order] if rest.names else rest.names
    return replace(rest, nodes=[rest.nodes[k] for k in order], names=names)


def _positions(rest: NodesToConvert, needed: Sequence[set[int]], place: str) -> list[int]:
    """The positions of the nodes in the order to convert them."""
    order: dict[int, None] = {}
    entered: dict[int, None] = {}
    stack = list(reversed(range(len(needed))))
    while stack:  # depth first: a node waits on the stack below what it needs
        k = stack[-1]
        missing = [] if k in order else sorted(needed[k] - order.keys(), reverse=True)
        if missing and k in entered:
            waiting = [n for n in entered if n not in order]
            raise ImportModelError(f"{place}: {_circle(rest, waiting[waiting.index(k) :])}")
        if missing:
            entered[k] = None
            stack += missing
        else:
            order[k] = None
            stack.pop()
    return list(order)


def _circle(rest: NodesToConvert, circle: Sequence[int]) -> str:
    """What is wrong with nodes of which each reads the next one's output, and the last the first's."""
    names = [f"{rest.nodes[k].name or f'{rest.nodes[k].op_type}_{k}'} ({rest.nodes[k].op_type})" for k in circle]
    if len(names) == 1:
        return f"node {names[0]} reads its own output; the model is damaged"
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    return f"nodes {shown} read each other's outputs in a circle; the model is damaged"
