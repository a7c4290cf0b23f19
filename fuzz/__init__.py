"""Differential fuzzing: random models through every backend, against ONNX Runtime and ONNX's reference.

``python -m fuzz models --seconds 600`` runs it; ``python -m fuzz --help`` says the rest. The package is not installed
with the product: it is imported from the root of the repository.
"""
