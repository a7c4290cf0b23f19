"""int8 for f32 models of the benchmark: the samples, and the model that ONNX Runtime's own quantization makes of them.

ONNX Runtime and OpenVINO run the QDQ file that ``onnxruntime.quantization.quantize_static`` writes (unsigned
activations, signed weights with a scale for each channel, ranges by minmax); ours is compiled from the f32 file with
the same samples. A file that holds quantizing operators was quantized by its author, and all engines run it as it is.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.engines import random_inputs

SAMPLES = 4
QUANTIZING = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulInteger", "ConvInteger")


def is_quantized(path: Path) -> bool:
    """Whether an ONNX file holds an operator that quantizes, or computes on quantized numbers."""
    import onnx

    return any(node.op_type in QUANTIZING for node in onnx.load(path, load_external_data=False).graph.node)


def samples(path: Path) -> list[dict[str, np.ndarray]]:
    """Seeded inputs to find ranges by; the first is what the benchmark runs."""
    return [random_inputs(path, seed) for seed in range(SAMPLES)]


def quantize_static(path: Path, folder: Path) -> Path:
    """The QDQ file that ONNX Runtime makes of the f32 file *path*, in *folder*."""
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        """Hands the samples out, one by one."""

        def __init__(self) -> None:
            self.left = iter(samples(path))

        def get_next(self) -> dict[str, np.ndarray] | None:
            """The next sample, or None."""
            return next(self.left, None)

    prepared, made = folder / f"{path.stem}_prepared.onnx", folder / f"{path.stem}_int8.onnx"
    quantization.shape_inference.quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
    quantization.quantize_static(
        str(prepared),
        str(made),
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        calibrate_method=quantization.CalibrationMethod.MinMax,
    )
    prepared.unlink()
    return made
