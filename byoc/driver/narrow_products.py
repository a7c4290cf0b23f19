"""Products of the host in lower precision, where the user allows it: bfloat16 operands with sums in float32, or int8.

Which operators these are says the rule of mixed precision (``always``); of them, those are taken whose summed axis code
can be generated for (``codegen/c/contraction/word_products.py``) on a processor that gains by it. Each call of such an
operator has a :class:`PrecisionOutcome`. A value that such products read is rounded where it is made, so that it is
stored in half the bytes, and widened again for elementwise readers that make floats; what others read too (a
comparison, a cast to integers) is stored as it is, and rounded for the products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from byoc import te
from byoc.codegen.c.contraction.word_products import takes_words
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.contract.verdict import callee_name
from byoc.driver.precision import FLOAT, FP16, INT8, HostProducts, PrecisionOutcome, ProductPrecision
from byoc.driver.quantization import Calibration, CompileHost, HostQuantization, Key
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.span import span_names
from byoc.ir.types import TensorType, tensor_types
from byoc.relay import op
from byoc.relay.analysis.operator_calls import moves_one
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.narrowing import operator_of, tensor_type
from byoc.relay.op.core.builder import define, is_definable
from byoc.relay.transform.base.fusion_graph import fusion_children, uncompiled_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.half_operands import summed_wide, takes_rounded
from byoc.relay.transform.mixed_precision import is_always_converted
from byoc.relay.traverse import post_order, rebuild
from byoc.runtime.core.ndarray import NDArray, numpy_dtype
from byoc.runtime.library import Library

NARROW, WIDE = "bfloat16", "float32"
DOT = "dot_bf16"
WHOSE = {"bf16": "the host's products", INT8: "the host's products, and for targets that compute on integers"}
WIDE_HOST = "halves are for regions of targets that take them"


class NarrowProducts(HostProducts):
    """The pass that gives products their operands in bfloat16; *outcomes* records what became of each call.

    The code is for *machine*, or for this one.
    """

    def __init__(self, precision: ProductPrecision, machine: Machine | None = None):
        super().__init__()
        self.precision, self.machine = precision, machine
        self.quantization: HostQuantization | None = None
        if precision.products == INT8:
            self.quantization = HostQuantization(precision.calibration or Calibration(), precision.keep_f32)

    def quantized(self, mod: IRModule, compile_host: CompileHost) -> IRModule:
        return mod if self.quantization is None else self.quantization.quantized(mod, compile_host)

    def add_report(self, library: Library) -> Library:
        if self.quantization is not None:
            self.quantization.check(library)
        return library

    def left_to_targets(self, regions: Iterable[Function]) -> Mapping[str, object]:
        asked = self.precision.products
        if asked not in WHOSE:
            return {}
        counts: Counter[str] = Counter()
        for region in regions:
            calls = (n for n in post_order(region.body, uncompiled_children) if isinstance(n, Call))
            counts[str(region.attrs["Compiler"])] += sum(map(is_product, calls))
        left = {target: count for target, count in counts.items() if count}
        why = f"in f32: {asked} is for {WHOSE[asked]}"
        lines = (f"{asked}: {n} products are given to {target} {why}\n" for target, n in left.items())
        return {"text": "".join(lines), "targets": left} if left else {}

    def passes(self) -> list[FunctionPass]:
        if self.precision.products == FLOAT:
            return []
        if self.precision.products == FP16:
            return [
                FunctionPass(
                    self._wide,
                    PassInfo(
                        "TellWideProducts",
                        0,
                        ("InferType",),
                        ends=REWRITES,
                        law=Law("products on operands rounded to bfloat16, sums in float32", Numbers.NEAR),
                    ),
                )
            ]
        if self.precision.products == INT8:
            return [
                FunctionPass(
                    self._integers,
                    PassInfo(
                        "TellIntegerProducts",
                        0,
                        ("InferType",),
                        ends=REWRITES,
                        law=Law("a product keeps what it computes in and says so"),
                    ),
                )
            ]
        return [
            FunctionPass(
                self._function,
                PassInfo(
                    "NarrowProducts",
                    0,
                    ("InferType",),
                    ends=REWRITES,
                    law=Law("products on operands rounded to bfloat16, sums in float32", Numbers.NEAR),
                ),
            )
        ]

    def _function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        chosen = set()
        for node in post_order(func.body, fusion_children):
            if isinstance(node, Call) and is_product(node):
                reason = self._refusal(node)
                self.outcomes.append(
                    PrecisionOutcome(
                        callee_name(node), span_names(node.span), "f32" if reason else "bf16", reason or ""
                    )
                )
                if reason is None:
                    chosen.add(node)
        body = _Rewriter(func.body, chosen).run() if chosen else func.body
        return Function(func.params, body, func.declared_ret_type, func.type_params, func.attrs, func.span)

    def _integers(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """*func* as it is: its integer products are made when the model is simplified."""
        waiting: dict[Key, list[str]] = {}
        for key, why in self.quantization.reasons if self.quantization is not None else ():
            waiting.setdefault(key, []).append(str(why))
        for node in post_order(func.body, fusion_children):
            if isinstance(node, Call) and is_always_converted(node):
                precision, reason = _integer_precision(node)
                key = (callee_name(node), span_names(node.span))
                if precision == "f32" and waiting.get(key):
                    reason = waiting[key].pop(0)
                self.outcomes.append(PrecisionOutcome(*key, precision, reason))
        return func

    def _wide(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """*func* as it is: what stays on the host computes in float32."""
        products = [n for n in post_order(func.body, fusion_children) if isinstance(n, Call) and is_product(n)]
        self.outcomes += [PrecisionOutcome(callee_name(n), span_names(n.span), "f32", WIDE_HOST) for n in products]
        return func

    def _refusal(self, call: Call) -> str | None:
        """Why *call* stays in float32."""
        if not {callee_name(call), *span_names(call.span)}.isdisjoint(self.precision.keep_f32):
            return "the user keeps it in f32"
        if DOT not in (self.machine or find_compiler().machine).dots:
            return "this processor has no instruction for products of bfloat16"
        if not is_definable(operator_of(call), call.attrs, [a.checked_type for a in call.args], call.checked_type):
            return "a dimension is unknown"
        if not _takes_words(call):
            return "its sum runs over no axis whose numbers could be taken two at a time"
        return None


def is_product(call: Call) -> bool:
    """Whether *call* is one of the operators that gain by lower precision, on float32 alone."""
    if not is_always_converted(call):  # others may be of sequences
        return False
    types = [t for ty in (*(a.checked_type for a in call.args), call.checked_type) for t in tensor_types(ty)]
    return all(t.dtype == WIDE for t in types)


def _integer_precision(call: Call) -> tuple[str, str]:
    """In what *call* multiplies, and why not in bytes."""
    dtypes = [tensor_type(a).dtype for a in call.args]
    if dtypes == ["uint8", "int8"]:
        return "int8", ""
    if tensor_type(call).dtype == "int32":
        return "int32", "its operands do not fit into 8 bits"
    return "f32", "the model does not quantize its operands, or it is depthwise"


def _takes_words(call: Call) -> bool:
    """Whether code for words can be generated for *call* on bfloat16."""
    inputs = [te.placeholder(te.shape_of(tensor_type(a)), NARROW, f"p{k}") for k, a in enumerate(call.args)]
    outputs = define(operator_of(call), summed_wide(call.attrs), inputs, call.checked_type)
    constants = {p for p, a in zip(inputs, call.args, strict=True) if isinstance(a, Constant)}
    return len(outputs) == 1 and takes_words(outputs[0], constants)


class _Rewriter:
    """Puts the conversions into one function."""

    def __init__(self, root: RelayExpr, chosen: Collection[Call]):
        self.root, self.chosen = root, chosen
        self.users: dict[RelayExpr, list[RelayExpr]] = {}
        self.order = list(post_order(root, fusion_children))
        for node in self.order:
            for child in dict.fromkeys(fusion_children(node)):
                self.users.setdefault(child, []).append(node)
        self.new: dict[RelayExpr, RelayExpr] = {}
        self.narrow: dict[RelayExpr, RelayExpr] = {}
        self.wide: dict[RelayExpr, RelayExpr] = {}

    def run(self) -> RelayExpr:
        for node in self.order:
            self.new[node] = self._node(node)
        return self.new[self.root]

    def _node(self, node: RelayExpr) -> RelayExpr:
        if node in self.chosen:
            assert isinstance(node, Call)
            args = [self._narrowed(a) for a in node.args]
            return Call(node.op, args, summed_wide(node.attrs), node.type_args, node.span)
        inner = fusion_children(node)
        return rebuild(node, [self._widened(c) for c in inner]) if inner else node

    def _narrowed(self, node: RelayExpr) -> RelayExpr:
        """*node* in bfloat16."""
        if node not in self.narrow:
            self.narrow[node] = self._rounded(node)
        return self.narrow[node]

    def _rounded(self, node: RelayExpr) -> RelayExpr:
        if isinstance(node, Constant):
            return Constant(NDArray(node.data.numpy().astype(numpy_dtype(NARROW))), node.span)
        if moves_one(node) and all(u in self.chosen or moves_one(u) for u in self.users[node]):
            return rebuild(node, [self._narrowed(c) for c in fusion_children(node)])
        made = op.cast(self.new[node], NARROW)
        return Call(made.op, made.args, made.attrs, made.type_args, node.span)

    def _widened(self, node: RelayExpr) -> RelayExpr:
        """*node* as readers in float32 take it."""
        if not self._is_stored_narrow(node):
            return self.new[node]
        if node not in self.wide:
            self.wide[node] = op.cast(self._narrowed(node), WIDE)
        return self.wide[node]

    def _is_stored_narrow(self, node: RelayExpr) -> bool:
        """Whether products read *node*, which a call makes, and beside them only elementwise operators on floats.

        A comparison, a cast to integers or a step would make another number of a rounded one, not a rounded number.
        """
        ty = node.checked_type
        if not isinstance(node, Call) or not isinstance(ty, TensorType) or ty.dtype != WIDE:
            return False
        users = self.users.get(node, [])
        return any(u in self.chosen for u in users) and all(u in self.chosen or takes_rounded(u, node) for u in users)
