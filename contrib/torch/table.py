"""The whole table of kernels: whoever imports it has those of every family."""

from byoc.contrib.torch import movement, pointwise, windows
from byoc.contrib.torch.kernels import DTYPES, KERNELS, Step

__all__ = ["DTYPES", "KERNELS", "Step", "movement", "pointwise", "windows"]
