"""The seconds of a product's multiply-adds: its matrices padded to what the processor computes side by side.

Winograd's method for 3x3 convolutions is the cheaper of F(4x4, 3x3) and F(2x2, 3x3) by the same rates (Lavin and Gray,
"Fast Algorithms for Convolutional Neural Networks", 2016), where the profile has it.
"""

from __future__ import annotations

import math

from byoc.partition.costs.profile import Profile
from byoc.partition.costs.work import ProductWork

ITEM = 4
WINOGRAD = (4, 2)  # results along an axis of a tile


def product_seconds(product: ProductWork, profile: Profile, dtype: str) -> float:
    """Seconds without those of the bytes from memory. *dtype* is that of the operands."""
    direct = _direct(product.batch, product.rows, product.columns, product.depth, profile, dtype)
    if product.convolution:
        direct /= profile.convolution
    if product.tiles is None or not profile.winograd or dtype != "float32":
        return direct
    return min(direct, *(_winograd(product, result, profile, dtype) for result in WINOGRAD))


def depthwise_seconds(product: ProductWork, profile: Profile) -> float:
    """Seconds of a convolution of each channel by itself."""
    results = product.batch * product.rows * product.columns
    return results * (product.depth + profile.window_overhead) / profile.depthwise


def _direct(batch: int, rows: int, columns: int, depth: int, profile: Profile, dtype: str) -> float:
    padded = math.ceil(columns / profile.lanes) * profile.lanes
    return batch * rows * padded * (depth + profile.overhead) / profile.rate_of(dtype)


def _winograd(product: ProductWork, result: int, profile: Profile, dtype: str) -> float:
    return sum(winograd_seconds(product, result, profile, dtype))


def winograd_seconds(product: ProductWork, result: int, profile: Profile, dtype: str) -> tuple[float, float]:
    """With tiles of *result* by *result* results: the seconds of their products, and of bringing numbers in and out."""
    assert product.tiles is not None  # those for whom the method is possible are asked alone
    images, height, width = product.tiles
    points = (result + 2) ** 2
    tiles = images * math.ceil(height / result) * math.ceil(width / result)
    channels = product.depth // 9
    sums = _direct(points, tiles, product.columns, channels, profile, dtype)
    weights = points * channels * product.columns * ITEM
    transformed = tiles * points * (channels + product.columns) / profile.transform
    return max(sums, weights / profile.memories[-1].rate), transformed
