"""The error of an index outside its dimension, the same sentence from every backend.

A *check* is the name of one test of indices: the ONNX node and the axis. Native code and devices know it by a number
and tell the *place* that they found: the index, counted from the end where it is negative, as an unsigned number.
A length is told as it was given.
"""

from __future__ import annotations

from byoc.runtime.core.errors import IndexOutsideError

OF_LENGTHS = ", length along axis "  # in the name of a check: what it looks at are no positions but numbers of elements
OF_BROADCAST = "the sizes "  # how the name of a check begins that two sizes are the same, or one of them 1
EMPTY_PLACE = 1 << 63  # stands for the index 0 into a dimension of 0 elements


def index_outside(check: str, place: int, extent: int) -> IndexOutsideError:
    """The error for *place* in a dimension of *extent* elements."""
    signed = 0 if place == EMPTY_PLACE else place - (1 << 64) if place >= 1 << 63 else place
    if check.startswith(OF_BROADCAST):
        return IndexOutsideError(f"{check} of two tensors that belong together differ: one has {extent} elements there")
    if OF_LENGTHS in check:
        return wrong_length(check, signed, extent - 1)
    return wrong_index(check, signed - extent if signed < 0 else signed, extent)


def wrong_index(check: str, index: int, extent: int) -> IndexOutsideError:
    """The error for *index*, as the model was given it, into a dimension of *extent* elements."""
    where = check or "an operator that takes elements by their positions"
    use = f"give indices from {-extent} to {extent - 1}" if extent else "it has no element that could be taken"
    return IndexOutsideError(f"{where}: index {index} is outside a dimension of {extent}; {use}")


def wrong_length(check: str, length: int, size: int) -> IndexOutsideError:
    """The error for a number of elements, *length*, in a dimension of *size*."""
    return IndexOutsideError(f"{check}: {length} is outside a dimension of {size}; give lengths from 0 to {size}")


def image_outside(where: str, image: float, count: int) -> IndexOutsideError:
    """The error for the number of an *image* outside a batch of *count*; no number counts from the end."""
    use = f"give images from 0 to {count - 1}" if count else "it has no image"
    return IndexOutsideError(f"{where}: image {image:g} is outside a batch of {count}; {use}")
