"""Cases on integers, for a backend that takes operators of ``relay.qnn``: float samples, quantized as models are.

Each sample of an operator that the backend computes on integers becomes a small model whose tensors are quantized and
dequantized again (scales and zero points are constants, of the ranges that the sample has), a product alone, with its
bias, and with a bias and a relu. The model goes through the planner; the regions that it gives the backend are the
cases: what it is handed of a quantized model, and nothing else. The reference computes them on integers, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from byoc.contract.backend import Backend
from byoc.contract.quantized import DATA_DTYPES, Quantized
from byoc.driver.compiler.integers import region_integers
from byoc.driver.compiler.plan import simplify_and_plan
from byoc.driver.compiler.target_integers import exact_operators, takes_integers
from byoc.driver.options import PlanRequest
from byoc.errors import ByocError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import OPS, Op, Sample
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.expr import Call, Function, Tuple, Var
from byoc.relay.narrowing import tensor_type
from byoc.relay.op import nn
from byoc.relay.qnn.op.quantize import dequantize, quantize
from byoc.runtime.kernels.qnn.rounding import TOEVEN
from byoc.testing.cases.operators import BackendAnswers, attributes, is_computed, sample_inputs
from byoc.testing.core.case import Case, constant, function_of
from byoc.testing.core.reference import outputs_of

QUANTIZED = "quantized"
MOST_SAMPLES = 8  # of one operator
WITH_BIAS, RELU = " with bias", " relu"
WEIGHT_STEPS = 127


def quantized_cases(asked: BackendAnswers, seed: int) -> Iterator[Case]:
    """The cases of every operator that the backend computes on integers; none where it computes on none."""
    if not takes_integers(asked.backend):
        return
    how = asked.backend.quantized or Quantized()
    for name in how.operators or exact_operators():
        op = OPS[name]
        chosen = [s for s in op.samples if _is_float(s, seed)][:MOST_SAMPLES]
        for number, sample in enumerate(chosen):
            for form in _forms(op):
                yield from _cases(asked, op, sample, f"{name}[{number}]{form} on integers", (how, seed, form))


def _forms(op: Op) -> tuple[str, ...]:
    """The models that are made of one sample: the operator alone, and with what often stands behind it."""
    if op.traits.product is not None:
        return ("", WITH_BIAS, f"{WITH_BIAS} and{RELU}")
    return ("", f" with{RELU}") if len(op.input_names) == 2 else ("",)


def _is_float(sample: Sample, seed: int) -> bool:
    arrays = [a for item in sample_inputs(sample, seed) for a in (item if isinstance(item, list) else [item])]
    return bool(arrays) and all(a.dtype == np.float32 and a.size and np.isfinite(a).all() for a in arrays)


def _cases(
    asked: BackendAnswers, op: Op, sample: Sample, name: str, made: tuple[Quantized, int, str]
) -> Iterator[Case]:
    """The regions that the backend is given of the model of one sample."""
    how, seed, form = made
    try:
        regions = _regions(asked.backend, _model(op, sample, how, seed, form))
    except ByocError:  # a sample that has no form on integers, or that fits no model
        return
    for place, region in enumerate(regions):
        rng = np.random.default_rng(seed)
        types = [t for p in region.params for t in tensor_types(p.checked_type)]
        if not all(t.is_static and t.dtype in (*DATA_DTYPES, "int32") for t in types):
            continue
        arrays = tuple(_numbers(t, rng) for t in types)
        function = function_of(region.params, region.body)
        if asked.takes(function, name) and is_computed(function, arrays):
            yield Case(
                f"{name}, region {place}" if place else name, _operator(function), QUANTIZED, function, (arrays,)
            )


def _operator(function: Function) -> str:
    """The last operator or composite of a region, which it is a test of."""
    body = function.body
    if isinstance(body, Call):
        return str(body.op.attrs.get("Composite")) if isinstance(body.op, Function) else getattr(body.op, "name", "")
    return "a tuple"


def _numbers(ty: TensorType, rng: np.random.Generator) -> np.ndarray:
    """Integers of all the range of *ty*."""
    limits = np.iinfo(ty.dtype)
    least, most = (limits.min, limits.max + 1) if ty.dtype in DATA_DTYPES else (-1000, 1000)
    return rng.integers(least, most, ty.concrete_shape).astype(ty.dtype)


def _regions(backend: Backend, mod: IRModule) -> list[Function]:
    """What *backend* is given of *mod*, in the order in which it stands there."""
    simple, plan = simplify_and_plan(PlanRequest(mod, targets=[backend.name, "c"]))
    cut = region_integers(plan.apply(simple))
    functions = [f for f in cut.functions.values() if isinstance(f, Function)]
    return [f for f in functions if f.attrs.get("Compiler") == backend.name]


def _model(op: Op, sample: Sample, how: Quantized, seed: int, form: str) -> IRModule:
    """A model of one call of *op*, with what it reads and gives quantized and dequantized again."""
    attrs = attributes(op, sample)
    params: list[Var] = []
    scales: list[float] = []
    args: list[RelayExpr] = []
    plain: list[RelayExpr] = []
    is_product = op.traits.product is not None
    given: list[np.ndarray] = []
    for k, item in enumerate(sample_inputs(sample, seed)):
        group: list[tuple[RelayExpr, RelayExpr]] = []
        for array in item if isinstance(item, list) else [item]:
            if is_product and k == 1:
                scales.append(float(np.abs(array).max() or 1.0) / WEIGHT_STEPS)
                whole = np.clip(np.round(array / scales[-1]), -WEIGHT_STEPS, WEIGHT_STEPS).astype("int8")
                group.append((dequantize(constant(whole), _scale(scales[-1]), _zero(0)), constant(array)))
                continue
            var = Var(f"x{len(params)}", TensorType(array.shape, "float32"))
            params.append(var)
            given.append(array)
            scale, zero = _range_of(array, how)
            scales.append(scale)
            group.append((_fake(var, scale, zero, how), var))
        args.append(Tuple([a for a, _ in group]) if isinstance(item, list) else group[0][0])
        plain.append(Tuple([b for _, b in group]) if isinstance(item, list) else group[0][1])
    wanted = outputs_of(function_of(params, Call(op, plain, attrs)), given, False)
    body: RelayExpr = Call(op, args, _with_channels(attrs, wanted[0], plain))
    if form.startswith(WITH_BIAS):
        body = _with_bias(body, function_of(params, body).body, scales[0] * scales[1])
    body = nn.relu(body) if form.endswith(RELU) else body
    function = function_of(params, body)
    if not isinstance(function.body.checked_type, TensorType):
        return IRModule.from_expr(function)
    scale, zero = _range_of(wanted[0], how)
    return IRModule.from_expr(function_of(params, _fake(body, scale, zero, how)))


def _with_channels(attrs: Attrs | None, result: np.ndarray, inputs: Sequence[RelayExpr]) -> Attrs | None:
    """*attrs* of a convolution with its channels and the size of its kernel, which models always state."""
    if attrs is None or not {"kernel_layout", "channels"} <= set(attrs.keys()):
        return attrs
    layout = str(attrs["out_layout"] or attrs["data_layout"])
    kernel = tensor_type(inputs[1]).concrete_shape
    sizes = tuple(kernel[str(attrs["kernel_layout"]).index(letter)] for letter in layout if letter not in "NC")
    changed = {"channels": result.shape[layout.index("C")], "kernel_size": sizes}
    return replace(attrs, **changed)


def _with_bias(body: RelayExpr, typed: RelayExpr, scale: float) -> RelayExpr:
    """*body* with a bias for each channel, in the scale of its sums."""
    shape = tensor_type(typed).concrete_shape
    attrs = body.attrs if isinstance(body, Call) else None
    layout = str(getattr(attrs, "out_layout", "") or getattr(attrs, "data_layout", ""))
    axis = layout.index("C") if layout else len(shape) - 1
    numbers = np.arange(shape[axis]).astype("int32") * 7 - 11
    bias = dequantize(constant(numbers), _scale(scale), _zero(0), axis=0)
    return nn.bias_add(body, bias, axis=axis)


def _range_of(array: np.ndarray, how: Quantized) -> tuple[float, int]:
    """A scale and a zero point with which the integers of *how* reach over *array*."""
    limits = np.iinfo(how.data)
    low, high = min(float(array.min(initial=0)), 0.0), max(float(array.max(initial=0)), 0.0)
    if how.symmetric:
        return max(-low, high, 1e-3) / limits.max, 0
    scale = max(high - low, 1e-3) / (limits.max - limits.min)
    return scale, int(np.clip(round(limits.min - low / scale), limits.min, limits.max))


def _fake(value: RelayExpr, scale: float, zero: int, how: Quantized) -> RelayExpr:
    """*value* quantized and dequantized again."""
    one, other = _scale(scale), _zero(zero)
    return dequantize(quantize(value, one, other, out_dtype=how.data, rounding=TOEVEN), one, other)


def _scale(value: float) -> RelayExpr:
    return constant(np.asarray(value, "float32"))


def _zero(value: int) -> RelayExpr:
    return constant(np.asarray(value, "int32"))
