"""Optimisations that need the values of parameters. Source: ``relay.data_dep_optimization``."""

from byoc.annex.data_dep_optimization import bsr_conv2d, bsr_dense, simplify_fc_transpose

__all__ = ["bsr_conv2d", "bsr_dense", "simplify_fc_transpose"]
