"""``precision="fp16"`` for vendors whose kernels are of float16: the model is given float16 calls that these take.

A backend whose regions compute in halves inside (``Backend.why_not_in``) has ``half_regions.py``. One that declares
float16 (a place ``acme/fp16/any``, an input of a kernel, a constraint ``dtypes("float16")``) is handed calls on float16
instead, with casts around them. They are found on trial: all products, and what follows them (``Traits.precision``, as
Relay's mixed precision), are cast to float16, the trial is planned in the order of the targets, and what these vendors
took of it is cast in the model itself. Whatever else a plan is asked for comes afterwards, so that a plan made before
fits the model again; what it then leaves to the host is in float32 again (``widened_host.py``). What must stay in
float32 is as for regions (:class:`Beyond`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from byoc.contract.backend import Backend
from byoc.contract.registration import get_backend
from byoc.contract.verdict import sentence_of
from byoc.driver.compiler.module_plan import plan_module
from byoc.driver.compiler.widened_host import has_halves, wide_constants
from byoc.driver.half_regions import GivenHalves
from byoc.driver.precision import FP16
from byoc.errors import PartitionError, in_one_line
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import Span, merge_spans, span_names
from byoc.ir.traits import Conversion
from byoc.ir.types import tensor_types
from byoc.partition.calls import Decision, calls_of
from byoc.partition.options import PlacingOptions
from byoc.partition.place import HOST, DataLayout, Place, Precision
from byoc.partition.places.libraries import kernels_run_by, places_of, runnable, with_libraries
from byoc.partition.places.relay_casts import insert_relay_casts
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem
from byoc.relay.narrowing import as_function
from byoc.relay.transform import InferType
from byoc.relay.transform.half_operands import USER, WIDE, Beyond, HalfProduct, key_of, largest_of, out_of_range
from byoc.relay.transform.mixed_precision import category_of
from byoc.relay.traverse import post_order, typed_rewrite

HALF_PLACE = Place(HOST, Precision(FP16), DataLayout.ANY)
MARK = "\0half "  # begins the names of spans by which calls of the trial are known


def takers(targets: Sequence[str], options: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Those of *targets* that declare float16 and whose regions do not compute in it inside."""
    names = [name for name in with_libraries(targets) if name != HOST]
    return [n for n in names if _declares(b := get_backend(n)) and b.why_not_in(FP16, options.get(n, {})) is not None]


def _declares(backend: Backend) -> bool:
    if any("float16" in condition.dtypes for condition in backend.constraints):
        return True
    if FP16 in backend.precisions_inside:
        return False
    kernels = runnable(kernels_run_by(backend)) if kernels_run_by(backend) else []
    typed = (t.precision for k in kernels for t in (*k.inputs.values(), *k.outputs.values()))
    return any(str(p) == FP16 for p in (*typed, *(place.precision for place in places_of(backend))))


def halved(
    mod: IRModule, targets: Sequence[str], vendors: Sequence[str], beyond: Beyond
) -> tuple[IRModule, GivenHalves]:
    """The simplified *mod* with the calls that *vendors*, of *targets*, take in float16 on it, and what became of each
    product.
    """
    mod = InferType()(mod)
    main = as_function(mod["main"])
    try:
        wanted, refused = _candidates(main, beyond)
        trial, number = _trial(main, wanted)
        plan = plan_module(_with_main(mod, trial), [*targets, HOST], PlacingOptions())
        taken = _taken(plan.apply(_with_main(mod, trial)), vendors)
        kept = _following(main, {call: taken[n] for call, n in number.items() if n in taken})
        placed = insert_relay_casts(main, dict.fromkeys(kept, HALF_PLACE)) if kept else None
    except PartitionError as error:  # control flow, or calls of functions
        return mod, GivenHalves((), dict.fromkeys(vendors, in_one_line(error)))
    by_number = {n: d for d in plan.decisions for n in _numbers(d.nodes)}
    products: list[tuple[str, HalfProduct]] = []
    for call in (c for c in calls_of(main) if _category(c) == Conversion.ALWAYS):
        for target in [kept[call]] if call in kept else vendors:
            reason = "" if call in kept else refused.get(call) or _why(by_number.get(number.get(call, -1)), target)
            products.append((target, HalfProduct(*key_of(call), reason)))
    given = {target for target, p in products if not p.reason}
    none = "the model has no product of float32 (a convolution, a dense layer) that float16 is for"
    refusals = {} if products else dict.fromkeys(set(vendors) - given, none)
    cast = frozenset() if has_halves(main) else frozenset(key_of(call) for call in kept)
    given_halves = GivenHalves(tuple(products), refusals, cast, wide_constants({} if placed is None else placed.origin))
    return mod if placed is None else _with_main(mod, placed.function), given_halves


def _with_main(mod: IRModule, main: Function) -> IRModule:
    result = mod.shallow_copy()
    result["main"] = main
    return InferType()(result)


def _category(call: Call) -> int | None:
    """Whether the float32 *call* is computed in float16 always, or as its inputs are; None where never."""
    if not isinstance(call.op, Op):
        return None
    types = [*(t for a in call.args for t in tensor_types(a.checked_type)), *tensor_types(call.checked_type)]
    floats = {t.dtype for t in types if t.dtype.startswith(("float", "bfloat"))}
    category = category_of(call, "float16")
    if floats != {WIDE} or category not in (Conversion.ALWAYS, Conversion.FOLLOW):
        return None
    if category == Conversion.FOLLOW and any(getattr(call.attrs, name, "") for name in ("dtype", "out_dtype")):
        return None
    return category


def _candidates(main: Function, beyond: Beyond) -> tuple[dict[Call, str], dict[Call, str]]:
    """The calls that may be on float16, and products that may not, each with why."""
    refused: dict[Call, str] = {}
    may: dict[Call, str] = {}
    for call in calls_of(main):
        if _category(call) is None:
            continue
        why = _refusal(call, beyond)
        if why is None:
            may[call] = ""
        else:
            refused[call] = why
    return _following(main, may), refused


def _refusal(call: Call, beyond: Beyond) -> str | None:
    key = key_of(call)
    if not {key[0], *key[1]}.isdisjoint(beyond.keep):
        return USER
    if key in beyond.readers or key in beyond.values:
        return beyond.readers.get(key) or f"its result {beyond.values[key]}"
    for k, arg in enumerate(call.args):
        if isinstance(arg, Constant) and arg.data.dtype == WIDE:
            why = out_of_range(largest_of(arg.data.numpy()))
            if why is not None:
                return f"its operand {k}, a constant, {why}"
        if isinstance(arg, Call) and key_of(arg) in beyond.values:
            return f"its operand {k} {beyond.values[key_of(arg)]}"
    return None


def _following(main: Function, may: Mapping[Call, str]) -> dict[Call, str]:
    """Those of *may* that are products, or follow one of them."""
    found: dict[Call, str] = {}
    halves: set[object] = set()  # the values that are on float16
    for node in post_order(main.body):
        if isinstance(node, Tuple):
            follows = any(f in halves for f in node.fields)
        elif isinstance(node, TupleGetItem):
            follows = node.tuple_value in halves
        elif isinstance(node, Call) and node in may:
            follows = _category(node) == Conversion.ALWAYS or any(a in halves for a in node.args)
            if follows:
                found[node] = may[node]
        else:
            follows = False
        if follows:
            halves.add(node)
    return found


def _trial(main: Function, wanted: Collection[Call]) -> tuple[Function, dict[Call, int]]:
    """*main* with the *wanted* calls on float16, each marked with a number; and these numbers."""
    placed = insert_relay_casts(main, dict.fromkeys(wanted, HALF_PLACE))
    number = {call: k for k, call in enumerate(wanted)}
    marked = {made: number[call] for made, call in placed.origin.items() if call in number}

    def mark(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if not isinstance(before, Call) or before not in marked or not isinstance(after, Call):
            return after
        span = merge_spans([after.span, Span.named(f"{MARK}{marked[before]}")])
        return Call(after.op, after.args, after.attrs, after.type_args, span)

    return as_function(typed_rewrite(placed.function, mark)), number


def _numbers(names: Sequence[str]) -> list[int]:
    return [int(name.removeprefix(MARK)) for name in names if name.startswith(MARK)]


def _taken(cut: IRModule, vendors: Sequence[str]) -> dict[int, str]:
    """The numbers of the marked calls in regions of *vendors*, each with its target."""
    found: dict[int, str] = {}
    for function in cut.functions.values():
        target = str(function.attrs.get("Compiler", "")) if isinstance(function, Function) else ""
        if target in vendors:
            for node in post_order(as_function(function)):
                if isinstance(node, Call) and isinstance(node.op, Op):
                    found.update(dict.fromkeys(_numbers(span_names(node.span)), target))
    return found


def _why(decision: Decision | None, target: str) -> str:
    """Why *target* does not take a product that the trial gave it in float16."""
    if decision is None:
        return "it follows no product that is taken in float16"
    if decision.target is not None:
        return f"{decision.target} takes it"
    verdict = dict(decision.verdicts).get(target)
    return "it is not asked" if verdict is None else f"not taken in float16: {sentence_of(verdict.why)}"
