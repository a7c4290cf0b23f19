"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.relay.frontend.onnx import from_onnx as from_onnx
