"""Places and kernels: what may compute an operator, where, on which tensors; Paddle Lite's score; the fewest casts."""

from byoc.partition.place import DataLayout, Place, Precision, register_target
from byoc.partition.places.grade import FORMULAS, Formula
from byoc.partition.places.kernel import KERNELS, Kernel, KernelRegistry, kernel, register_kernel
from byoc.partition.places.pick import Explanation, pick_kernels, valid_places
from byoc.partition.places.score import Placed, PlacementUnit, score_places
from byoc.partition.places.tensor_type import TensorTy

__all__ = [
    "FORMULAS",
    "KERNELS",
    "DataLayout",
    "Explanation",
    "Formula",
    "Kernel",
    "KernelRegistry",
    "Place",
    "Placed",
    "PlacementUnit",
    "Precision",
    "TensorTy",
    "kernel",
    "pick_kernels",
    "register_kernel",
    "register_target",
    "score_places",
    "valid_places",
]
