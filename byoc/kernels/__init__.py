"""Declared kernels: what a vendor's library computes, operator by operator, in Python, C or OpenCL C.

A kernel is declared for an operator at a place and found by it; no backend is written where the target has none::

    from byoc.kernels import CSource, kernel

    @kernel("nn.relu", "arm/float/any")
    def relu(x):
        return np.maximum(x, 0)

    kernel("nn.leaky_relu", "arm/float/any")(CSource('''...'''))

    library = byoc.compile(model, ["arm", "c"])

Policy ``score`` chooses among kernels and code generators by Paddle Lite's grade, policy ``cost`` by what they take,
policy ``order`` takes the first target that has one. See ``docs/guides/kernels.md``.
"""

from byoc.kernels.backend import KernelBackend
from byoc.partition.places.kernel import KERNELS, Kernel, kernel, register_kernel
from byoc.partition.places.source import CSource, OpenCLSource

__all__ = ["KERNELS", "CSource", "Kernel", "KernelBackend", "OpenCLSource", "kernel", "register_kernel"]
