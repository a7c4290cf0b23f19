"""``tvm.contrib``: the executor over compiled graphs, and temporary folders."""
