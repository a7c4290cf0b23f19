"""What ``qnn.transform.Legalize`` does with quantized operators.

Functions of 8- and 16-bit numbers become tables, whatever the target. Products follow the target of the innermost
``with Target(…)``: with 8-bit products of one kind only (unsigned by signed on x86, equal ones on ARM, signed ones on
GPUs) the data are shifted into that kind; without any, products are made of 16-bit differences. Without a target they
stay. Source: ``relay/qnn/legalizations.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import get_op
from byoc.ir.target import Target
from byoc.ir.types import TensorType, Type
from byoc.relay import op as relay
from byoc.relay.expr import Call, Constant, constant
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.relay.qnn.lowering.convolution import lower_conv2d_transpose, shifted_conv2d
from byoc.relay.qnn.lowering.matrix_products import shifted_dense
from byoc.relay.qnn.op.canonicalizations import FloatFunction, create_integer_lookup_op
from byoc.relay.qnn.op.op import Rule, register_qnn_legalize
from byoc.relay.qnn.op.type_relations import NARROW
from byoc.runtime.kernels.qnn.elementwise import FUNCTIONS, hard_swish

MAX_TABLE_BITS = 16
# processors of x86 with SSE 4.2, by LLVM's names; all of AVX have it too
SSE42_PROCESSORS = frozenset(
    [
        "nehalem",
        "westmere",
        "sandybridge",
        "ivybridge",
        "haswell",
        "broadwell",
        "skylake",
        "skylake-avx512",
        "cascadelake",
        "cooperlake",
        "cannonlake",
        "icelake-client",
        "icelake-server",
        "rocketlake",
        "tigerlake",
        "alderlake",
        "raptorlake",
        "sapphirerapids",
        "emeraldrapids",
        "graniterapids",
        "silvermont",
        "goldmont",
        "core-avx-i",
        "core-avx2",
        "corei7",
        "corei7-avx",
        "btver2",
        "bdver1",
        "bdver2",
        "bdver3",
        "bdver4",
        "znver1",
        "znver2",
        "znver3",
        "znver4",
        "x86-64-v2",
        "x86-64-v3",
        "x86-64-v4",
    ]
)

hardswish_func = hard_swish  # Relay's name


def register_qnn_unary_op_legalize(op_name: str, floating_point_func: FloatFunction) -> object:
    """Legalize a function of each element to a table, where its parameters are constant scalars."""

    def legalize(attrs: Attrs | None, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
        data = types[0]
        assert isinstance(data, TensorType)
        if np.iinfo(data.dtype).bits > MAX_TABLE_BITS or not all(_is_number(p) for p in inputs[1:]):
            return None
        quantized, scale, point, new_scale, new_point = inputs
        return create_integer_lookup_op(
            quantized,
            floating_point_func,
            scale,
            point,
            new_scale,
            new_point,
            in_dtype=data.dtype,
            out_dtype=data.dtype,
        )

    return register_qnn_legalize(op_name, legalize)


def _is_number(parameter: RelayExpr) -> bool:
    return isinstance(parameter, Constant) and parameter.data.numpy().size == 1


for _name, _function in FUNCTIONS.items():
    register_qnn_unary_op_legalize(f"qnn.{_name}", _function)


class RulesByTarget:
    """One rule for each key of targets; a call asks that of the current target, or the default.

    The way in which Relay's generic functions choose. Source: ``tvm.target.generic_func``.
    """

    def __init__(self, default: Rule):
        self.default = default
        self.rules: dict[str, Rule] = {}

    def register(self, keys: str | Sequence[str], rule: Rule | None = None) -> Rule | Callable[[Rule], Rule]:
        """Set the rule for targets with one of *keys*, as a call or a decorator."""

        def keep(function: Rule) -> Rule:
            for key in (keys,) if isinstance(keys, str) else keys:
                self.rules[key] = function
            return function

        return keep(rule) if rule is not None else keep

    def __call__(self, attrs: Attrs | None, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
        """What the rule for the current target makes of a call, or None."""
        target = Target.current()
        found = [self.rules[key] for key in (target.keys if target is not None else ()) if key in self.rules]
        return (found[0] if found else self.default)(attrs, inputs, types)


def is_fast_int8_on_intel() -> bool:
    """True where the current target multiplies unsigned by signed 8-bit numbers: x86 with SSE 4.2."""
    target = Target.current()
    if target is None:
        return False
    return target.mcpu in SSE42_PROCESSORS or any(f.startswith(("+sse4.2", "+avx")) for f in target.mattr)


def is_fast_int8_on_arm() -> bool:
    """True where the current target has ARM's dot product."""
    target = Target.current()
    return target is not None and "+dotprod" in target.mattr


def _stay(attrs: Attrs | None, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> None:
    """Without a target that says otherwise a call stays."""


def _dtypes(types: Sequence[Type]) -> tuple[str, str]:
    return tensor_arg(types, 0).dtype, tensor_arg(types, 1).dtype


def _moved(data: RelayExpr, zero_point: RelayExpr, dtype: str) -> tuple[RelayExpr, RelayExpr]:
    """8-bit *data* as the other signedness *dtype*: both it and its zero point moved by 128."""
    shift = 128 if dtype == "uint8" else -128
    wide = relay.add(relay.cast(data, "int32"), constant(shift, "int32"))
    if isinstance(zero_point, Constant):
        moved: RelayExpr = constant(zero_point.data.numpy() + np.int32(shift))
    else:
        moved = relay.add(zero_point, constant(shift, "int32"))
    return relay.cast(wide, dtype), moved


def change_dtypes(
    op_name: str, attrs: Attrs | None, inputs: Sequence[RelayExpr], types: Sequence[Type], wanted: tuple[str, str]
) -> Call | None:
    """The same quantized product on data and kernel of the *wanted* 8-bit dtypes; None where they are that already."""
    new = list(inputs)
    found = _dtypes(types)
    if found == wanted or any(dtype not in NARROW for dtype in found):
        return None
    for k, (before, dtype) in enumerate(zip(found, wanted, strict=True)):
        if before != dtype:
            new[k], new[k + 2] = _moved(inputs[k], inputs[k + 2], dtype)
    return make_call(op_name, new, attrs)


def _product_rules(name: str, wide: Callable[..., RelayExpr]) -> RulesByTarget:
    """The rules of a product; *wide* makes it of 16-bit differences."""
    rules = RulesByTarget(_stay)

    def differences(attrs: Attrs | None, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
        return wide(attrs, inputs, types) if set(_dtypes(types)) <= set(NARROW) else None

    def intel(attrs: Attrs | None, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
        if is_fast_int8_on_intel():
            return change_dtypes(name, attrs, inputs, types, ("uint8", "int8"))
        return differences(attrs, inputs, types)

    def arm(attrs: Attrs | None, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
        if is_fast_int8_on_arm():
            kernel = _dtypes(types)[1]
            return change_dtypes(name, attrs, inputs, types, (kernel, kernel))
        return differences(attrs, inputs, types)

    def gpu(attrs: Attrs | None, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
        return change_dtypes(name, attrs, inputs, types, ("int8", "int8"))

    rules.register("cpu", intel)
    rules.register("arm_cpu", arm)
    rules.register(("cuda", "gpu"), gpu)
    register_qnn_legalize(name, rules)
    return rules


qnn_conv2d_legalize = _product_rules("qnn.conv2d", shifted_conv2d)
qnn_dense_legalize = _product_rules("qnn.dense", shifted_dense)

# whatever the target, transposed convolutions are made of differences
qnn_conv2d_transpose_legalize = RulesByTarget(lower_conv2d_transpose)
register_qnn_legalize(get_op("qnn.conv2d_transpose").name, qnn_conv2d_transpose_legalize)
