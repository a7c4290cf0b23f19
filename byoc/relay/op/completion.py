"""What every operator is given when it is registered, whichever module does it."""

from __future__ import annotations

from byoc.ir.op import Op
from byoc.relay.op.core.support_levels import set_support_level
from byoc.runtime.kernels.movement.layouts import LAYOUT_ATTRIBUTES


def complete(op: Op) -> None:
    """Give *op* its support level and, where its attributes name layouts, let it take blocked ones."""
    set_support_level(op)
    if op.name in LAYOUT_ATTRIBUTES and op.rel is not None:
        from byoc.relay.op.blocked import allow_blocks  # which is made of operators

        allow_blocks(op)
