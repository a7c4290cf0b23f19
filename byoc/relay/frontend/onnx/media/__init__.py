"""Images and signals: regions and boxes, sums of patches, Fourier transforms."""

from byoc.relay.frontend.onnx.media import fourier, patches, regions

__all__ = ["fourier", "patches", "regions"]
