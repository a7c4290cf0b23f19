"""What every operator is given when it is registered, whichever module does it."""

from __future__ import annotations

from byoc.ir.op import Op


def complete(op: Op) -> None:
    """Where the traits of *op* say so, let it take blocked layouts."""
    if op.traits.takes_blocks and op.rel is not None:
        from byoc.relay.op.blocked import allow_blocks  # which is made of operators

        allow_blocks(op)
