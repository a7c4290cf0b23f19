"""Quantized operators: importing this package registers them, and its names are their builders.

Source: ``relay.qnn.op``.
"""

from byoc.relay.qnn.op import canonicalizations, qnn
from byoc.relay.qnn.op.op import register_qnn_canonicalize, register_qnn_legalize
from byoc.relay.qnn.op.qnn import *  # noqa: F403

__all__ = [
    *qnn.__all__,
    "canonicalizations",
    "qnn",
    "register_qnn_canonicalize",
    "register_qnn_legalize",
]
