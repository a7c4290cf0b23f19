"""The whole table of builders: whoever imports it has those of every family."""

from byoc.contrib.onednn import movement, pointwise, products, windows
from byoc.contrib.onednn.steps import BUILDERS, PRODUCTS

__all__ = ["BUILDERS", "PRODUCTS", "movement", "pointwise", "products", "windows"]
