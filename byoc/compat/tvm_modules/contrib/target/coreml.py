"""``tvm.contrib.target.coreml``: which operators TVM's converter to Core ML knows. Source: ``_convert_map``.

The integration's predicates read the keys. The converters themselves write Core ML's own format with its package,
which byoc does not: using one raises NotHereError.
"""

from __future__ import annotations

from byoc.compat.tvm.below import Missing

OPERATORS = (
    "add",
    "multiply",
    "clip",
    "expand_dims",
    "nn.relu",
    "nn.batch_flatten",
    "nn.softmax",
    "nn.conv2d",
    "nn.global_avg_pool2d",
)
_convert_map = {name: Missing(f"tvm.contrib.target.coreml._convert_map[{name!r}]") for name in OPERATORS}
