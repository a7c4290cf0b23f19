"""``tvm.contrib.target``: the converters of single vendors."""
