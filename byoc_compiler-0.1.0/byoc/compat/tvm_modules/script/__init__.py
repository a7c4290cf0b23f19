"""``tvm.script``: TVM's own script is below the graph; scalar types can be named."""
