"""All converters: importing this module registers them."""

from byoc.relay.frontend.onnx import (
    activations,
    constants,
    control,
    convolution,
    elementwise,
    fused,
    indexing,
    legacy,
    linear,
    logic,
    movement,
    normalization,
    padding,
    pooling,
    quantization,
    recurrent,
    reduction,
    resizing,
    sampling_grids,
    shapes,
)

FAMILIES = (
    activations, constants, control, convolution, elementwise, fused, indexing, legacy, linear, logic, movement,
    normalization, padding, pooling, quantization, recurrent, reduction, resizing, sampling_grids, shapes,
)
