"""The numpy kernel that decodes images in files' formats, by Pillow. Source: ImageDecoder-20."""

from __future__ import annotations

import importlib
import io
from types import ModuleType

import numpy as np

from byoc.runtime.core.entry_points import install_command
from byoc.runtime.core.errors import InputError, UnavailableError
from byoc.runtime.kernels.core.registry import kernel

FORMATS = ("RGB", "BGR", "Grayscale")


@kernel("image.decode")
def decode(data: np.ndarray, *, pixel_format: str = "RGB") -> np.ndarray:
    """data: uint8[bytes of a file] -> uint8[H, W, 3], or one channel of greys; the first image of several.

    Raises InputError for bytes that are no image that Pillow knows, UnavailableError without Pillow.
    """
    library = _pillow()
    try:
        with library.open(io.BytesIO(data.tobytes())) as image:
            pixels = np.asarray(image.convert("L" if pixel_format == "Grayscale" else "RGB"), np.uint8)
    except Exception as error:  # decoders of formats raise whatever they find
        raise InputError(f"the {data.size} bytes are no image that can be decoded ({error})") from error
    if pixel_format == "Grayscale":
        return pixels[:, :, None]
    return np.asarray(pixels[:, :, ::-1], order="C") if pixel_format == "BGR" else pixels


def _pillow() -> ModuleType:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise UnavailableError(
            f"an image is decoded by Pillow, which is not installed here: {install_command('images')}"
        ) from error
