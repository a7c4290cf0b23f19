"""Places and kernels: what may compute an operator, where, on which tensors; Paddle Lite's score; the fewest casts."""
