"""Relay's operators: importing this package registers them, and its names are their builder functions."""

from byoc.ir.op import Op, OpPattern, register_op_attr
from byoc.relay.op import (
    annotation,
    blocked,
    dynamic,
    dynamic_images,
    image,
    memory,
    nn,
    op,
    random,
    vision,
    vm,
)
from byoc.relay.op.assign import matrix_set_diag, sequence_mask, strided_set
from byoc.relay.op.binary import (
    add,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    divide,
    floor_divide,
    floor_mod,
    left_shift,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    multiply,
    power,
    right_shift,
    subtract,
    trunc_divide,
    trunc_mod,
)
from byoc.relay.op.check_indices import check_indices, check_indices_like
from byoc.relay.op.check_lengths import check_lengths
from byoc.relay.op.compare import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_equal,
)
from byoc.relay.op.device_placement import device_copy
from byoc.relay.op.einstein_sum import (
    einsum,
    reverse_sequence,
)
from byoc.relay.op.elementwise import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    bitwise_not,
    cast,
    cast_like,
    ceil,
    clip,
    copy,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    logical_not,
    negative,
    reinterpret,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from byoc.relay.op.fast_math import fast_erf, fast_exp, fast_tanh
from byoc.relay.op.fixed_point import (
    fixed_point_multiply,
    fixed_point_multiply_per_axis,
)
from byoc.relay.op.fourier import dft, stft
from byoc.relay.op.match_shape import match_shape
from byoc.relay.op.op import (
    debug,
    get,
    register,
    register_alter_op_layout,
    register_broadcast_schedule,
    register_compute,
    register_convert_op_layout,
    register_external_compiler,
    register_fake_quantization_to_integer,
    register_gradient,
    register_infer_correct_layout,
    register_injective_schedule,
    register_legalize,
    register_mixed_precision_conversion,
    register_optional_fake_quantization_to_integer,
    register_pattern,
    register_reduce_schedule,
    register_schedule,
    register_shape_func,
    register_stateful,
    register_strategy,
)
from byoc.relay.op.nn.conv_legalize import register_legalizations
from byoc.relay.op.ordering import (
    argsort,
    argwhere,
    sort,
    topk,
    trilu,
    unique,
)
from byoc.relay.op.positions import (
    adv_index,
    invert_permutation,
    searchsorted,
    sliding_window,
    unravel_index,
)
from byoc.relay.op.rearrange import (
    layout_transform,
    meshgrid,
)
from byoc.relay.op.reduce import (
    all,
    any,
    argmax,
    argmin,
    logsumexp,
    max,
    mean,
    mean_std,
    mean_variance,
    min,
    prod,
    std,
    sum,
    variance,
)
from byoc.relay.op.reverse_reshape import reverse_reshape
from byoc.relay.op.scan import cumprod, cumsum
from byoc.relay.op.scatter import (
    scatter_elements,
    scatter_nd,
)
from byoc.relay.op.sparse import segment_sum, sparse_fill_empty_rows, sparse_reshape, sparse_to_dense
from byoc.relay.op.support_levels import set_support_levels
from byoc.relay.op.transform_broadcast import (
    broadcast_to,
    broadcast_to_like,
    collapse_sum_like,
    collapse_sum_to,
    where,
)
from byoc.relay.op.transform_create import (
    arange,
    full,
    full_like,
    ndarray_size,
    one_hot,
    ones,
    ones_like,
    shape_of,
    zeros,
    zeros_like,
)
from byoc.relay.op.transform_join import (
    concatenate,
    repeat,
    split,
    stack,
    tile,
)
from byoc.relay.op.transform_shape import (
    expand_dims,
    reshape,
    reshape_like,
    reverse,
    squeeze,
    transpose,
)
from byoc.relay.op.transform_slice import (
    gather,
    gather_nd,
    slice_like,
    strided_slice,
    take,
)

set_support_levels()
register_legalizations()

__all__ = [
    "Op", "OpPattern", "abs", "acos", "acosh", "add", "adv_index", "all", "annotation", "any", "arange", "argmax",
    "argmin", "argsort", "argwhere", "asin", "asinh", "atan", "atanh", "bitwise_and", "bitwise_not", "bitwise_or",
    "bitwise_xor", "blocked", "broadcast_to", "broadcast_to_like", "cast", "cast_like", "ceil",
    "check_indices", "check_indices_like", "check_lengths", "clip", "collapse_sum_like", "collapse_sum_to",
    "concatenate", "copy", "cos", "cosh", "cumprod", "cumsum", "debug",
    "device_copy", "dft", "divide", "dynamic", "dynamic_images", "einsum", "equal", "erf", "exp", "exp2",
    "expand_dims", "expm1", "fast_erf", "fast_exp", "fast_tanh", "fixed_point_multiply",
    "fixed_point_multiply_per_axis", "floor", "floor_divide", "floor_mod", "full", "full_like", "gather",
    "gather_nd", "get", "greater", "greater_equal", "image", "invert_permutation", "isfinite", "isinf", "isnan",
    "layout_transform", "left_shift", "less", "less_equal", "log", "log10", "log1p", "log2", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logsumexp", "match_shape", "matrix_set_diag", "max", "maximum",
    "mean", "mean_std", "mean_variance", "memory", "meshgrid", "min", "minimum", "mod", "multiply", "ndarray_size",
    "negative", "nn", "not_equal", "one_hot", "ones", "ones_like", "op", "power", "prod", "random", "register",
    "register_alter_op_layout", "register_broadcast_schedule", "register_compute", "register_convert_op_layout",
    "register_external_compiler", "register_fake_quantization_to_integer", "register_gradient",
    "register_infer_correct_layout", "register_injective_schedule", "register_legalize",
    "register_mixed_precision_conversion", "register_op_attr", "register_optional_fake_quantization_to_integer",
    "register_pattern", "register_reduce_schedule", "register_schedule", "register_shape_func", "register_stateful",
    "register_strategy", "reinterpret", "repeat", "reshape", "reshape_like", "reverse", "reverse_reshape",
    "reverse_sequence", "right_shift", "round", "rsqrt", "scatter_elements", "scatter_nd", "searchsorted",
    "segment_sum", "sequence_mask", "shape_of", "sigmoid", "sign", "sin", "sinh", "slice_like", "sliding_window",
    "sort", "sparse_fill_empty_rows", "sparse_reshape", "sparse_to_dense", "split", "sqrt", "squeeze", "stack",
    "std", "stft", "strided_set", "strided_slice", "subtract", "sum", "take", "tan", "tanh", "tile", "topk",
    "transpose", "trilu", "trunc", "trunc_divide", "trunc_mod", "unique", "unravel_index", "variance", "vision",
    "vm", "where", "zeros", "zeros_like",
]
