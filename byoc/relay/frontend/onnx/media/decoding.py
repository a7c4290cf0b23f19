"""Images out of files. Source: ImageDecoder-20."""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.runtime.kernels.images.decoder import FORMATS


@converter("ImageDecoder", since=20)
def _image_decoder(node: OnnxNode) -> RelayExpr:
    wanted = node.attrs.string("pixel_format", "RGB")
    if wanted not in FORMATS:
        raise node.error(f"pixel_format is {', '.join(FORMATS)}, got {wanted!r}")
    return relay.image.decode(node[0], wanted)
