"""Tensors as images: which are, the kernels that fill them, how any kernel reads them, and the choice between both."""
