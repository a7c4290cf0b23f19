"""Images and signals: files, regions and boxes, sums of patches, Fourier transforms."""

from byoc.relay.frontend.onnx.media import decoding, fourier, patches, regions

__all__ = ["decoding", "fourier", "patches", "regions"]
