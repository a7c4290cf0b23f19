"""Every architecture of ``transformers`` that PyTorch's exporter can write, held to ONNX Runtime.

``python -m tools.architectures FOLDER`` makes a tiny model of each with random weights (nothing is downloaded), exports
it with fixed and with free sizes, runs ONNX Runtime and byoc on the same inputs, and writes ``results.jsonl``;
``--page`` makes ``docs/support/architectures.md`` of it. ``tried.jsonl`` here has what was tried so far: a FOLDER that
begins with a copy of it as ``results.jsonl`` goes on there; of functions on numpy kernels it has the first three and
their count, and a file that was judged again later has versions of its own. Needs ``torch transformers onnx
onnxscript onnxruntime``.
"""
