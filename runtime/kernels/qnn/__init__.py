"""Numpy kernels of quantized operators (``relay.qnn.op``).

A quantized number q stands for ``scale * (q - zero_point)``. Scales and zero points are scalars, or vectors along one
axis. The results are those of the plain operators into which Relay lowers each quantized one, to the last integer.
"""
