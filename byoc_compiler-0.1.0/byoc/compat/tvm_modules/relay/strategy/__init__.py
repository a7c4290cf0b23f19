"""``relay.op.strategy``: what graph-level code asks of it; strategies themselves are below the graph."""
