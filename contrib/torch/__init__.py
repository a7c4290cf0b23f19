"""The ``torch`` backend: regions through PyTorch's libraries, cuBLAS and cuDNN on a CUDA device."""
