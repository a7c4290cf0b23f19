"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.relay.frontend.onnx_importer import converter as converter
from byoc.relay.frontend.onnx_importer import from_onnx as from_onnx
from byoc.relay.frontend.onnx_importer import import_onnx as import_onnx
