"""The whole table of kernels: whoever imports it has those of every family."""

from byoc.contrib.torch import movement, pointwise, windows
from byoc.contrib.torch.kernels import CONV_BIAS, DENSE_BIAS, DTYPES, KERNELS

__all__ = ["CONV_BIAS", "DENSE_BIAS", "DTYPES", "KERNELS", "movement", "pointwise", "windows"]
