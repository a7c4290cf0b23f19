"""The whole table of builders: whoever imports it has those of every family."""

from byoc.contrib.onednn import movement, pointwise, products, windows
from byoc.contrib.onednn.steps import BUILDERS

__all__ = ["BUILDERS", "movement", "pointwise", "products", "windows"]
