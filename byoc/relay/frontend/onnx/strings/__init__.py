"""Strings: texts, tokens and n-grams."""

from byoc.relay.frontend.onnx.strings import texts

__all__ = ["texts"]
