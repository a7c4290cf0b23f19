"""The graph's side of an integration of oneDNN: what it takes, and rewrites towards it. Source: ``contrib.dnnl``.

Importing this package registers the pattern table and the ``target.dnnl`` attributes; asking for the target or its
table imports it. The regions go to whoever is registered as ``relay.ext.dnnl``: under TVM's names, byoc's generators.
"""

from byoc.contrib.onednn.relay.layouts import alter_conv, alter_conv_transpose, legalize_group_conv
from byoc.contrib.onednn.relay.patterns import is_compute_intensive, pattern_table, prune_dnnl_subgraphs
from byoc.contrib.onednn.relay.quantized import legalize_qnn_for_dnnl
from byoc.contrib.onednn.relay.rewrites import (
    DenseReshapeBiasGeluRewrite,
    LayerNormRewrite,
    rewrite_dense_bias_gelu_reshape_last,
    rewrite_layer_norm,
)

__all__ = [
    "DenseReshapeBiasGeluRewrite",
    "LayerNormRewrite",
    "alter_conv",
    "alter_conv_transpose",
    "is_compute_intensive",
    "legalize_group_conv",
    "legalize_qnn_for_dnnl",
    "pattern_table",
    "prune_dnnl_subgraphs",
    "rewrite_dense_bias_gelu_reshape_last",
    "rewrite_layer_norm",
]
