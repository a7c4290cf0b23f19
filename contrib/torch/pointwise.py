"""Operators on elements, reductions and normalisations, by PyTorch."""

from __future__ import annotations

from typing import Any

from byoc.contrib.torch.kernels import (
    BOOL,
    DTYPES,
    FLOATS,
    INTEGERS,
    NUMBERS,
    Tensor,
    TorchStep,
    along,
    kernel,
    torch,
)

# operator -> PyTorch's function of the same meaning
UNARY_FLOAT = {
    **{name: name for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp")},
    **{name: name for name in ("exp2", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p")},
    **{name: name for name in ("log2", "round", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "trunc")},
}
UNARY_NUMBER = {"abs": "abs", "negative": "neg", "nn.relu": "relu"}
BINARY_NUMBER = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "maximum": "maximum",
    "minimum": "minimum",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
}
BINARY_FLOAT = {"divide": "true_divide", "power": "pow"}
BINARY_ANY = {"equal": "eq", "not_equal": "ne"}
BINARY_BOOL = {"logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}
BITS = {"bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor"}


def _called(function: str) -> Any:
    """The kernel that is PyTorch's *function* of its operands."""
    return lambda step, *tensors: getattr(torch, function)(*tensors)


for _table, _dtypes in (
    (UNARY_FLOAT, FLOATS),
    (UNARY_NUMBER, NUMBERS),
    (BINARY_NUMBER, NUMBERS),
    (BINARY_FLOAT, FLOATS),
    (BINARY_ANY, DTYPES),
    (BINARY_BOOL, BOOL),
    ({"logical_not": "logical_not"}, BOOL),
    (BITS, (*INTEGERS, *BOOL)),
    ({"bitwise_not": "bitwise_not"}, INTEGERS),
):
    for _name, _function in _table.items():
        kernel(_name, dtypes=_dtypes)(_called(_function))


@kernel("where")
def _where(step: TorchStep, condition: Tensor, left: Tensor, right: Tensor) -> Tensor:
    return torch.where(condition != 0, left, right)


@kernel("sign", dtypes=NUMBERS)
def _sign(step: TorchStep, data: Tensor) -> Tensor:
    value = torch.sign(data)
    return torch.where(torch.isnan(data), data, value) if data.is_floating_point() else value


@kernel("cast")
def _cast(step: TorchStep, data: Tensor) -> Tensor:
    return data.to(step.dtype)


@kernel("copy")
def _copy(step: TorchStep, data: Tensor) -> Tensor:
    return data


@kernel("clip", dtypes=FLOATS)
def _clip(step: TorchStep, data: Tensor) -> Tensor:
    return torch.clamp(data, float(step["a_min"]), float(step["a_max"]))


@kernel("nn.leaky_relu", dtypes=FLOATS)
def _leaky_relu(step: TorchStep, data: Tensor) -> Tensor:
    return torch.where(data < 0, data * float(step["alpha"]), data)


@kernel("nn.prelu", dtypes=FLOATS)
def _prelu(step: TorchStep, data: Tensor, alpha: Tensor) -> Tensor:
    slope = along(alpha, step.axis(data.ndim, 1), data.ndim)
    return torch.where(data < 0, data * slope, data)


@kernel("nn.bias_add", dtypes=NUMBERS)
def _bias_add(step: TorchStep, data: Tensor, bias: Tensor) -> Tensor:
    return data + along(bias, step.axis(data.ndim, 1), data.ndim)


# along axes -----------------------------------------------------------------------------------------------------------


@kernel("nn.softmax", dtypes=FLOATS)
def _softmax(step: TorchStep, data: Tensor) -> Tensor:
    return torch.softmax(data, step.axis(data.ndim, -1))


@kernel("nn.log_softmax", dtypes=FLOATS)
def _log_softmax(step: TorchStep, data: Tensor) -> Tensor:
    return torch.log_softmax(data, step.axis(data.ndim, -1))


def _kept(step: TorchStep, data: Tensor, axes: tuple[int, ...], function: Any) -> Tensor:
    """*function* of *data* over *axes*; over none of them the data itself, where PyTorch would take all."""
    return function(data, axes, bool(step.get("keepdims", False))) if axes else data


@kernel("sum", dtypes=NUMBERS)
def _sum(step: TorchStep, data: Tensor) -> Tensor:
    return _kept(step, data, step.reduced_axes(data.ndim), lambda d, a, k: torch.sum(d, a, k, dtype=step.dtype))


@kernel("mean", dtypes=FLOATS)
def _mean(step: TorchStep, data: Tensor) -> Tensor:
    return _kept(step, data, step.reduced_axes(data.ndim), torch.mean)


@kernel("max", "min", dtypes=NUMBERS)
def _extremum(step: TorchStep, data: Tensor) -> Tensor:
    least = step.operator == "min"
    if data.numel():
        return _kept(step, data, step.reduced_axes(data.ndim), torch.amin if least else torch.amax)
    limits = None if data.is_floating_point() else torch.iinfo(data.dtype)  # over nothing, the far end of the type
    far = float("inf" if least else "-inf") if limits is None else limits.max if least else limits.min
    return torch.full(step.shape, far, dtype=data.dtype, device=data.device)


@kernel("all", dtypes=BOOL)
def _all(step: TorchStep, data: Tensor) -> Tensor:
    return _kept(step, data, step.reduced_axes(data.ndim), torch.all)


@kernel("any", dtypes=BOOL)
def _any(step: TorchStep, data: Tensor) -> Tensor:
    return _kept(step, data, step.reduced_axes(data.ndim), torch.any)


@kernel("argmax", "argmin", dtypes=NUMBERS)
def _argmax(step: TorchStep, data: Tensor) -> Tensor:
    (axis,) = step.reduced_axes(data.ndim)
    if not data.numel():
        return torch.zeros(step.shape, dtype=step.dtype, device=data.device)
    function = torch.argmax if step.operator == "argmax" else torch.argmin
    return function(data, axis, bool(step.get("keepdims", False))).to(step.dtype)


@kernel("cumsum", dtypes=FLOATS)
def _cumsum(step: TorchStep, data: Tensor) -> Tensor:
    flat = step.attributes.get("axis") is None
    source = data.reshape(-1) if flat else data
    total = torch.cumsum(source, step.axis(source.ndim, 0))
    return (total - source if step.get("exclusive", False) else total).to(step.dtype)


# normalisations -------------------------------------------------------------------------------------------------------


def _affine(step: TorchStep, value: Tensor, gamma: Tensor, beta: Tensor, axis: int) -> Tensor:
    if step.get("scale", False):
        value = value * along(gamma, axis, value.ndim)
    return value + along(beta, axis, value.ndim) if step.get("center", False) else value


def _standardised(data: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    """*data* with mean 0 and variance 1 over *axes*, float16 in float32."""
    wide = data.float() if data.dtype == torch.float16 else data
    deviation = wide - wide.mean(axes, keepdim=True)
    return deviation * torch.rsqrt(deviation.square().mean(axes, keepdim=True) + epsilon)


@kernel("nn.layer_norm", dtypes=FLOATS)
def _layer_norm(step: TorchStep, data: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    axis, epsilon = step.axis(data.ndim, -1), float(step["epsilon"])
    if axis == data.ndim - 1:
        scale = gamma if step.get("scale", False) else None
        offset = beta if step.get("center", False) else None
        return torch.nn.functional.layer_norm(data, data.shape[-1:], scale, offset, epsilon)
    return _affine(step, _standardised(data, (axis,), epsilon), gamma, beta, axis).to(data.dtype)


@kernel("nn.instance_norm", dtypes=FLOATS)
def _instance_norm(step: TorchStep, data: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    axis = step.axis(data.ndim, 1)
    over = tuple(k for k in range(1, data.ndim) if k != axis)
    return _affine(step, _standardised(data, over, float(step["epsilon"])), gamma, beta, axis).to(data.dtype)


@kernel("nn.group_norm", dtypes=FLOATS)
def _group_norm(step: TorchStep, data: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    axis, count = step.axis(data.ndim, 1), int(step["num_groups"])
    split = data.reshape(*data.shape[:axis], count, data.shape[axis] // count, *data.shape[axis + 1 :])
    over = tuple(k for k in range(1, split.ndim) if k != axis)
    value = _standardised(split, over, float(step["epsilon"])).reshape(data.shape)
    return _affine(step, value, gamma, beta, axis).to(data.dtype)


@kernel("nn.batch_norm", dtypes=FLOATS)
def _batch_norm(
    step: TorchStep, data: Tensor, gamma: Tensor, beta: Tensor, moving_mean: Tensor, moving_var: Tensor
) -> list[Tensor]:
    axis = step.axis(data.ndim, 1)
    factor = torch.rsqrt(moving_var.double() + float(step["epsilon"]))
    factor = factor * gamma if step.get("scale", False) else factor
    offset = -moving_mean * factor + (beta if step.get("center", False) else 0)
    wide = torch.promote_types(data.dtype, torch.float32)
    scaled = data * along(factor.to(wide), axis, data.ndim) + along(offset.to(wide), axis, data.ndim)
    return [scaled.to(data.dtype), moving_mean, moving_var]
