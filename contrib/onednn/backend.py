"""The ``onednn`` backend: what it takes, its patterns, and a region as a program of oneDNN's primitives.

An integration of a library of primitives without a graph, to be read top to bottom: composites are inlined to what
oneDNN has whole; constraints say what the primitives have as ONNX means it; a region is written as its operators, in
the order in which they stand; last the library is asked, where it is here, whether it has fast code for the call on
this processor. What runs behind a product in one primitive is found when the program is built, without the compiler
(``module.py``, ``fusing.py``; a file for each family of operators; ``library.py`` is oneDNN's C interface).

Integers are not taken. Without VNNI oneDNN adds products of bytes in pairs of 16 bits that saturate, with AVX2 and with
AVX-512 alike (of 288 products and convolutions with full bytes, version 3.2 computes 200 wrongly on a processor with
AVX-512 and 176 as for AVX2); where VNNI is, nobody has compared them yet.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from byoc.contract import (
    EVERY,
    NAN_LOST,
    NAN_SPREAD,
    Backend,
    PatternEntry,
    RegionNode,
    callee_name,
    constraint,
    constraints,
    judge,
    makes,
    register_backend,
)
from byoc.contrib.call_alone import asked_of_library
from byoc.contrib.endings import any_op, biased, gelu_pattern, swish_pattern
from byoc.contrib.onednn.algorithms import ELTWISE, GELU, SWISH
from byoc.contrib.onednn.building import Constants, is_reference
from byoc.contrib.onednn.execution import PrimitivePlan
from byoc.contrib.onednn.library import library, unavailable
from byoc.contrib.onednn.module import OnednnModule
from byoc.contrib.onednn.table import BUILDERS, PRODUCTS
from byoc.contrib.program_generator import ProgramGenerator
from byoc.contrib.region_program import RegionProgram
from byoc.contrib.window import CANONICAL, pads_of, per_axis
from byoc.errors import ByocError, DeviceError, in_one_line
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op, get_op
from byoc.ir.traits import ProductForm
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.bind import bind
from byoc.relay.dataflow_pattern import DFPattern, DFPatternCallback, is_op, rewrite, wildcard
from byoc.relay.dataflow_pattern.rewriting import NodeMap
from byoc.relay.expr import Call, Function, Var
from byoc.relay.functor import ExprMutator
from byoc.relay.interpreter import evaluate
from byoc.relay.narrowing import tensor_type
from byoc.relay.traverse import dataflow_children, post_order, substitute
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import Signature

# composites, and the functions of several operators that oneDNN has whole ---------------------------------------------

POINTS = np.linspace(-3, 3, 7, dtype="float32")
ACTIVATIONS: Mapping[str, tuple[Callable[[DFPattern], DFPattern], Callable[[float], float]]] = {
    GELU: (gelu_pattern, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    SWISH: (swish_pattern, lambda x: x / (1 + math.exp(-x))),
}


class _Inlined(ExprMutator):
    """Composites as their bodies."""

    def visit_call(self, call: Call) -> RelayExpr:
        if not isinstance(call.op, Function):
            return super().visit_call(call)
        given = dict(zip(call.op.params, [self.visit(a) for a in call.args], strict=True))
        return bind(self.visit(call.op.body), given)


class _Activation(DFPatternCallback):
    """A function of one tensor, written as several operators, as one composite."""

    def __init__(self, name: str):
        super().__init__(rewrite_once=True)  # its own result matches too
        self.name, self.data = name, wildcard()
        self.pattern = ACTIVATIONS[name][0](self.data)

    def callback(self, pre: RelayExpr, post: RelayExpr, node_map: NodeMap) -> RelayExpr:
        """The composite; *post* where its constants make it another function."""
        data = node_map[self.data][0]
        if not computes(post, data, self.name):
            return post
        param = Var("data", data.checked_type if isinstance(data.checked_type, TensorType) else None)
        body = substitute(post, {data: param})
        return Call(Function([param], body, attrs={"Composite": self.name}), [data])


def computes(expr: RelayExpr, data: RelayExpr, name: str) -> bool:
    """Whether *expr* is the function *name* of *data*, by its values at some points."""
    dtype = tensor_type(data).dtype
    point = Var("data", TensorType(POINTS.shape, dtype))
    try:
        function = infer_function(Function([point], substitute(expr, {data: point})))
        found = np.asarray(evaluate(function, [POINTS.astype(numpy_dtype(dtype))])).astype("float64")
    except ByocError:  # constants of a shape that goes with no other tensor
        return False
    wanted = [ACTIVATIONS[name][1](float(x)) for x in POINTS]
    near = 1e-5 if dtype == "float32" else 1e-2  # a number that is rounded to the 8 bits of a bfloat16
    return found.shape == POINTS.shape and np.allclose(found, wanted, rtol=near, atol=near)


def inlined(function: Function) -> Function:
    """*function* of operators, and of composites for what oneDNN has whole."""
    flat = infer_function(_function_with(function, _Inlined().visit(function.body)))
    body = rewrite([_Activation(name) for name in ACTIVATIONS], flat.body)
    return infer_function(_function_with(flat, body))


def _function_with(function: Function, body: RelayExpr) -> Function:
    return Function(function.params, body, None, function.type_params, function.attrs, function.span)


# what is taken --------------------------------------------------------------------------------------------------------

FLOATS = ("float32", "float16", "bfloat16")


def _products(form: ProductForm) -> list[str]:
    """Those of its products that have this form."""
    return [name for name in PRODUCTS if get_op(name).traits.product is form]


def _types(call: Call) -> list[TensorType]:
    return [t for value in (call, *call.args) for t in tensor_types(value.checked_type)]


@constraint("dtype", of=EVERY)
def one_float_type(call: Call) -> str | None:
    """float32, float16 or bfloat16, the same for all tensors but those of a cast; no bytes, whose products saturate on
    processors without VNNI
    """
    found = dict.fromkeys(t.dtype for t in _types(call))
    wrong = next((dtype for dtype in found if dtype not in FLOATS), None)
    return wrong or (", ".join(found) if len(found) > 1 and callee_name(call) != "cast" else None)


@constraint("accuracy", of="log")
def no_logarithm(call: Call) -> str:
    """functions with right digits: its logarithm is 1.4e-4 off at 1.01 and has another sign at 1 + 1e-6"""
    return "log"


@constraint("rank", of=("nn.matmul", "nn.batch_matmul"))
def matrices(call: Call) -> str | None:
    """products of matrices, or of stacks of them"""
    return next((str(tensor_type(a)) for a in call.args if tensor_type(a).ndim < 2), None)


@constraint("window", of=tuple(f"nn.{kind}_pool{n}d" for kind in ("max", "avg") for n in (1, 2, 3)))
def windows_that_see(call: Call) -> str | None:
    """windows that see an element each, and means over neighbours, without windows that hang over counted padding"""
    attrs, n = call.attrs, tensor_type(call.args[0]).ndim - 2
    kernel, dilation = per_axis(attrs.pool_size, n), per_axis(attrs.dilation, n)
    averages = hasattr(call.attrs, "count_include_pad")
    if averages and set(dilation) != {1}:
        return f"dilation {dilation}"
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    pads = pads_of(attrs.padding, n)
    if any(before > r or after > r for (before, after), r in zip(pads, reach, strict=True)):
        return f"padding {list(attrs.padding)}"
    if not attrs.ceil_mode:
        return None
    if (averages and attrs.count_include_pad) or not tensor_type(call.args[0]).is_static:
        return "ceil_mode"
    return None if _last_begins_inside(call, pads) else "ceil_mode with a last window outside"


def _last_begins_inside(call: Call, pads: Sequence[tuple[int, int]]) -> bool:
    """Whether the last window of a pool begins in the image, along each axis."""
    layout, n = str(call.attrs.layout), len(pads)
    letters = CANONICAL.get(n, "")[2:]
    sizes, outs = ([int(tensor_type(e).shape[layout.index(a)]) for a in letters] for e in (call.args[0], call))
    strides = per_axis(call.attrs.strides, n)
    return all((o - 1) * s - b < i for o, s, (b, _), i in zip(outs, strides, pads, sizes, strict=True))


@constraint("axis", of=("nn.layer_norm", "nn.batch_norm", "nn.lrn"))
def axes_of_normalizations(call: Call) -> str | None:
    """layer_norm along the last axis, batch_norm and lrn along the second; lrn over an odd number of channels"""
    ndim, name = tensor_type(call.args[0]).ndim, callee_name(call)
    axis = int(call.attrs.axis) % ndim
    if name == "nn.lrn" and (ndim != 4 or not int(call.attrs.size) % 2):
        return f"size {call.attrs.size}"
    return None if axis == (ndim - 1 if name == "nn.layer_norm" else 1) else f"axis {axis} of {ndim}"


@constraint("dtype", of=("nn.layer_norm", "nn.batch_norm"))
def float32_normalizations(call: Call) -> str | None:
    """normalizations of float32: the scale and the shift of a primitive are float32, whatever its data are"""
    return next((t.dtype for t in _types(call) if t.dtype != "float32"), None)


@constraint("window", of=_products(ProductForm.TRANSPOSED_CONVOLUTION))
def ends_within_a_stride(call: Call) -> str | None:
    """transposed convolutions whose output_padding is less than their strides"""
    n = tensor_type(call.args[0]).ndim - 2
    strides, added = per_axis(call.attrs.strides, n), per_axis(call.attrs.output_padding, n)
    return f"output_padding {list(added)}" if any(a >= s for a, s in zip(added, strides, strict=True)) else None


@constraint("resize", of=("image.resize2d", "nn.upsampling"))
def centres(call: Call) -> str | None:
    """linear between centres of elements, or each element as often as a whole number says"""
    attrs = call.attrs
    method = str(attrs.method)
    if getattr(attrs, "coordinate_transformation_mode", "half_pixel") == "half_pixel" and "linear" in method:
        return None if callee_name(call) == "image.resize2d" else method
    types = [tensor_type(e) for e in (call.args[0], call)]
    whole = all(t.is_static for t in types) and all(
        int(a) and int(b) % int(a) == 0 for a, b in zip(types[0].shape, types[1].shape, strict=True)
    )
    mode = str(getattr(attrs, "coordinate_transformation_mode", "asymmetric"))
    nearest = "nearest" in method and whole and mode in ("asymmetric", "half_pixel")
    rounding = str(getattr(attrs, "rounding_method", "") or "floor")
    fits = nearest and (mode == "half_pixel" or "floor" in rounding)
    return None if fits else f"{method} {mode} {rounding}"


@constraint("activation")
def whole_activations(call: Call) -> str | None:
    """of composites, operators that it has, and gelu and swish with their own constants"""
    if not isinstance(call.op, Function):
        return None
    names = [callee_name(c) for c in post_order(inlined(call.op).body, dataflow_children) if isinstance(c, Call)]
    return next((name for name in names if name not in BUILDERS), None)


@constraint("operator")
def primitives(call: Call) -> str | None:
    """an operator that its table of primitives has"""
    return None if not isinstance(call.op, Op) or call.op.name in BUILDERS else call.op.name


def _has_layouts(op: Op) -> bool:
    """Whether the layouts of its primitives follow attributes of an operator."""
    return op.traits.takes_blocks and op.name in BUILDERS


TAKEN = (
    primitives,
    one_float_type,
    constraints.named_sizes(most_axes=6, least=1),
    constraints.plain_layouts(_has_layouts, grouped=True),
    no_logarithm,
    matrices,
    constraints.plain_transforms(),
    windows_that_see,
    axes_of_normalizations,
    float32_normalizations,
    ends_within_a_stride,
    centres,
    constraints.zero_padding(),
    constraints.forward_slices(),
    whole_activations,
)

# how it is written, and what the library says -------------------------------------------------------------------------


class OnednnGenerator(ProgramGenerator):
    """Writes the program of one region."""

    def __init__(self, function: Function, options: Mapping[str, object] | None = None):
        super().__init__(inlined(infer_function(function)), options)

    @makes(*BUILDERS)
    def call(self, node: RegionNode, *arguments: int) -> list[int] | int:
        """One operator; of an activation, the constants by which it is written are not needed."""
        read = arguments if isinstance(node.call.op, Op) else arguments[: len(node.call.args)]
        return self.written(node, read, node.attrs)

    def compile(self, results: Sequence[int]) -> OnednnModule:
        program, signature = self.program(results)
        return OnednnModule({self.symbol: program}, [signature])


def _written(function: Function) -> tuple[Signature, RegionProgram]:
    """The program of *function*, with its signature."""
    module = OnednnBackend().compile(function, {})
    (signature,), (program,) = module.signatures.values(), module.programs.values()
    return signature, program


def _refusal(written: tuple[Signature, RegionProgram]) -> str | None:
    """Why the library has no fast code for a program, whose constants are taken for zeros."""
    signature, program = written
    if signature.size_names:
        return None  # the library says it when the sizes are known
    arrays = [np.zeros(s.concrete_shape({}), numpy_dtype(s.dtype)) for s in signature.constants]
    try:
        plan = PrimitivePlan(library(), program, signature, Constants(arrays), {})
    except DeviceError as error:
        return in_one_line(error)
    made = [action.primitive for action in plan.actions if action.primitive is not None]
    return next((f"{p.name} alone" for p in made if is_reference(p)), None)


FAST = "what oneDNN has code for on this processor, beside its reference"


def problem_of(function: Function) -> str | None:
    """Why oneDNN does not compute all of a region, in a clause; None where it does, on this machine."""
    missing = unavailable()
    if missing is not None:
        return missing
    calls = (node for node in post_order(inlined(function).body, dataflow_children) if isinstance(node, Call))
    return next(
        (str(verdict) for verdict in (judge(call, OnednnBackend.constraints) for call in calls) if not verdict), None
    )


@register_backend
class OnednnBackend(Backend):
    """Regions as programs of oneDNN's primitives."""

    name = "onednn"
    options = ()
    needs_sizes = True
    deviations = (NAN_LOST, NAN_SPREAD)  # its relu bounds as the processor does; its resize multiplies by zeros
    constraints = (*TAKEN, asked_of_library(FAST, TAKEN, unavailable, _written, _refusal))

    def unavailable(self) -> str | None:
        return unavailable()

    def device_kind(self) -> str | None:
        return "cpu"

    def patterns(self) -> Sequence[PatternEntry]:
        """Products with a bias, a sum and a function behind them; functions that are written as several operators."""
        products: dict[str, DFPattern] = {
            "conv": any_op(_products(ProductForm.CONVOLUTION), wildcard(), wildcard()),
            "conv_transpose": any_op(_products(ProductForm.TRANSPOSED_CONVOLUTION), wildcard(), wildcard()),
            "dense": any_op(_products(ProductForm.DENSE), wildcard(), wildcard()),
        }
        rows = []
        for name, product in products.items():
            with_bias = biased(product, wildcard())
            added = is_op("add")(with_bias, wildcard()) | is_op("add")(wildcard(), with_bias)
            for parts, body in (("bias_sum", added), ("bias", with_bias), ("", product)):
                prefix = f"onednn.{name}{'_' * bool(parts)}{parts}"
                rows.append(PatternEntry(f"{prefix}_ending", _ended(body)))
                rows += [PatternEntry(prefix, body)] if parts else []
        return [*rows, *(PatternEntry(name, pattern(wildcard())) for name, (pattern, _) in ACTIVATIONS.items())]

    def compile(self, function: Function, options: Mapping[str, object]) -> OnednnModule:
        """The program of *function*."""
        module = OnednnGenerator(function, options).generate()
        assert isinstance(module, OnednnModule)
        return module


def _ended(body: DFPattern) -> DFPattern:
    """*body* and a function of it."""
    single = [is_op(name)(body) for name in ELTWISE if name not in ACTIVATIONS]
    written = [pattern(body) for pattern, _ in ACTIVATIONS.values()]
    return functools.reduce(lambda a, b: a | b, [*written, *single])
