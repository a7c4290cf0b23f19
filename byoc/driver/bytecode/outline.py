"""Straight parts of functions that also hold sequences, or sizes that come to light within, as functions of their own.

Such a function is parted by levels: what needs no sequence and no result of a call stands at level 0, what needs
results of that level's calls at the next, and so on. The straight code of a level becomes one global function, over
tensors alone, every dimension of which has a number or a name: code is generated for it as for a model. What is left
are calls and operators of sequences, for the virtual machine. Ensures: the same values; a part reads nothing that a
later one makes, since a path from part to part only goes up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from byoc.driver.bytecode.found_sizes import STRAIGHT, PartSizes, with_found_sizes
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.traits import OpKind
from byoc.ir.types import Any, FuncType, TensorType, TupleType, Type, TypeCall, contains_type
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.analysis.operator_calls import is_symbolic
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.traverse import post_order, substitute

MAIN = "main"
PARTED = "Parted"  # the attribute of a function whose straight code stands in others
FORMS = ("input_forms", "output_forms")  # attributes of main: for each value what _form says


def outlined(mod: IRModule) -> IRModule:
    """*mod* with the straight parts of its functions that need it as functions of their own, and ``main`` a call."""
    found = PartSizes("found_size")
    mod = with_found_sizes(_with_vectors(infer_module(mod)), found)
    parted = [v for v, f in mod.functions.items() if isinstance(f, Function) and _needs_parts(f, found)]
    if not parted:
        return mod
    result = mod.shallow_copy()
    sizes = PartSizes()
    for var in parted:
        function = mod[var]
        assert isinstance(function, Function)
        made = _Parts(function, var.name_hint, sizes)
        body = made.whole()
        for part, straight in made.functions.items():
            result[part] = straight
        result_type = found.outside(function.declared_ret_type or function.body.checked_type)
        kept = Function(function.params, body, result_type, (), {PARTED: 1}, function.span)
        infer_expr(kept)
        if var.name_hint == MAIN:
            inner = GlobalVar(f"{MAIN}_control")
            inner._checked_type = kept.checked_type
            kept = kept.with_attr({key: function.attrs[key] for key in FORMS if key in function.attrs})
            result[inner] = kept
            params = [Var(p.name_hint, found.outside(p.checked_type)) for p in function.params]
            kept = Function(params, Call(inner, params, span=function.span), None, (), function.attrs, function.span)
        result[var] = kept
    return infer_module(result)


def _with_vectors(mod: IRModule) -> IRModule:
    """*mod* whose ``main`` takes and gives vectors of objects where it has sequences, said by its :data:`FORMS`."""
    from byoc.relay.op import sequence

    main = mod[MAIN]
    assert isinstance(main, Function)
    if not contains_type(main.checked_type, TypeCall):
        return mod
    params: list[Var] = []
    given: dict[RelayExpr, RelayExpr] = {}
    for k, param in enumerate(main.params):
        ty = param.checked_type
        vector = Var(param.name_hint, TensorType((Any(f"length_{k}"),), "string") if _form(ty) else ty)
        params.append(vector)
        given[param] = sequence.unwrap(vector, ty) if _form(ty) else vector
    body = substitute(main.body, given)
    types = main.body.checked_type
    whole = [types] if not isinstance(types, TupleType) else list(types.fields)
    fields = [body] if not isinstance(types, TupleType) else [_field(body, k) for k in range(len(whole))]
    results = [sequence.wrap(f) if _form(ty) else f for f, ty in zip(fields, whole, strict=True)]
    forms = {FORMS[0]: tuple(_form(p.checked_type) for p in main.params), FORMS[1]: tuple(map(_form, whole))}
    result = mod.shallow_copy()
    made = results[0] if not isinstance(types, TupleType) else Tuple(results)
    result[MAIN] = Function(params, made, None, (), {**main.attrs, **forms}, main.span)
    return infer_module(result)


def _field(body: RelayExpr, index: int) -> RelayExpr:
    return body.fields[index] if isinstance(body, Tuple) else TupleGetItem(body, index)


def _form(ty: Type) -> str:
    """What a caller gives or gets: "" for a tensor, else a sequence, an optional, or a tensor of any rank."""
    from byoc.relay.op.sequence import is_any_rank, is_optional
    from byoc.runtime.graph.graph import ANY_RANK, OPTIONAL, SEQUENCE

    if not isinstance(ty, TypeCall):
        return ""
    return OPTIONAL if is_optional(ty) else ANY_RANK if is_any_rank(ty) else SEQUENCE


def _needs_parts(function: Function, sizes: PartSizes) -> bool:
    """Whether a function holds sequences, or goes on with what a call gives in sizes without names, or of *sizes*."""
    if "Compiler" in function.attrs:
        return False
    found = list(post_order(function.body))
    if not all(isinstance(n, STRAIGHT) for n in found):  # decisions, which hold no straight code
        return False
    decided = [n for n in found if _is_decided(n)]
    types = [n.checked_type for n in decided if not _is_of_sequences(n)]
    return len(types) < len(decided) or any(not is_symbolic(ty) or sizes.stand_in(ty) for ty in types)


def _is_of_sequences(node: RelayExpr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.traits.kind is OpKind.SEQUENCE


def _is_decided(node: RelayExpr) -> bool:
    """Whether the machine does *node* itself: a call of a function, or what is done with a sequence."""
    return isinstance(node, Call) and (isinstance(node.op, GlobalVar) or _is_of_sequences(node))


class _Parts:
    """One function on its way into parts."""

    def __init__(self, function: Function, name: str, sizes: PartSizes):
        self.functions: dict[GlobalVar, Function] = {}
        self._function, self._name, self._sizes = function, name, sizes
        self._order = [n for n in post_order(function.body) if isinstance(n, (Call, Tuple, TupleGetItem))]
        self._levels: dict[RelayExpr, tuple[int, int]] = {}  # at which a straight reader stands, and a decided one
        self._part: dict[RelayExpr, int] = {}  # of straight nodes
        self._made: dict[RelayExpr, RelayExpr] = {}
        for node in self._order:
            self._place(node)
        self._read = self._outputs()

    def _place(self, node: RelayExpr) -> None:
        operands = node.args if isinstance(node, Call) else _inner(node)
        found = [self._levels.get(o, (0, 0)) for o in operands]
        straight, decided = max((s for s, _ in found), default=0), max((d for _, d in found), default=0)
        if _is_decided(node):
            self._levels[node] = (decided + 1, decided)
            return
        item = isinstance(node, TupleGetItem) and node.tuple_value in self._part
        if isinstance(node, TupleGetItem) and item:
            straight = self._part[node.tuple_value]
        if isinstance(node, Call) or item:
            self._part[node] = straight
            self._levels[node] = (straight, straight)
        else:
            self._levels[node] = (straight, decided)

    def _outputs(self) -> list[RelayExpr]:
        """The straight values that something else than their own part reads, each once."""
        read: dict[RelayExpr, None] = {}
        readers = [n for n in self._order if isinstance(n, Call) or n in self._part]
        uses = [(self._part.get(n), n.args if isinstance(n, Call) else _inner(n)) for n in readers]
        uses.append((None, (self._function.body,)))
        for part, operands in uses:
            for leaf in _leaves(operands):
                if leaf in self._part and self._part[leaf] != part:
                    read[leaf] = None
        return list(read)

    def whole(self) -> RelayExpr:
        """The body over calls of the parts."""
        for level in range(max((max(found) for found in self._levels.values()), default=0) + 1):
            self._emit_part(level)
            for node in self._order:
                if _is_decided(node) and self._levels[node][1] == level:
                    assert isinstance(node, Call)
                    made = Call(node.op, [self._outside(a) for a in node.args], node.attrs, span=node.span)
                    infer_expr(made)
                    self._made[node] = made
        return self._outside(self._function.body)

    def _outside(self, node: RelayExpr) -> RelayExpr:
        if node in self._made or isinstance(node, (Var, Constant)):
            return self._made.get(node, node)
        if isinstance(node, Tuple):
            made: RelayExpr = Tuple([self._outside(f) for f in node.fields])
        else:
            assert isinstance(node, TupleGetItem)
            made = TupleGetItem(self._outside(node.tuple_value), node.index)
        infer_expr(made)
        self._made[node] = made
        return made

    def _emit_part(self, level: int) -> None:
        from byoc.relay.analysis.size_params import size_params

        outputs = [node for node in self._read if self._part[node] == level]
        if not outputs:
            return
        params: dict[RelayExpr, Var] = {}
        copies: dict[RelayExpr, RelayExpr] = {}

        def inside(node: RelayExpr) -> RelayExpr:
            if node in copies or isinstance(node, Constant):
                return copies.get(node, node)
            if isinstance(node, Tuple):
                return Tuple([inside(f) for f in node.fields])
            if node not in params:
                name = node.name_hint if isinstance(node, Var) else f"given{len(params)}"
                params[node] = Var(name, self._sizes.named(node.checked_type))
            return params[node]

        for node in self._order:
            if self._part.get(node) != level:
                continue
            if isinstance(node, Call):
                copies[node] = Call(node.op, [inside(a) for a in node.args], node.attrs, node.type_args, node.span)
            else:
                assert isinstance(node, TupleGetItem)
                copies[node] = TupleGetItem(inside(node.tuple_value), node.index)
        body = copies[outputs[0]] if len(outputs) == 1 else Tuple([copies[o] for o in outputs])
        var = GlobalVar(f"{self._name}_part_{level}")
        result = self._sizes.outside(infer_expr(body))
        known = [p.checked_type for p in params.values()]
        sized = {
            Var(f"sized{k}", n.checked_type): n for k, n in enumerate(self._sized_values(level)) if n not in params
        }
        for size in size_params(body, known, [*self._function.params, *sized]):
            params[sized.get(size, size)] = Var(size.name_hint, size.checked_type)
        function = Function(list(params.values()), body, result, (), None, self._function.span)
        infer_expr(function)
        var._checked_type = FuncType([p.checked_type for p in params.values()], result, ())
        self.functions[var] = function
        call: RelayExpr = Call(var, [self._outside(node) for node in params], span=self._function.span)
        infer_expr(call)
        for index, output in enumerate(outputs):
            self._made[output] = call if len(outputs) == 1 else TupleGetItem(call, index)
            infer_expr(self._made[output])

    def _sized_values(self, level: int) -> list[RelayExpr]:
        """What calls before *level* give, one by one: tensors whose sizes may be asked for."""
        called = [n for n in self._made if _is_decided(n) and not _is_of_sequences(n) and self._levels[n][1] < level]
        items = (n for n in self._order if isinstance(n, TupleGetItem) and n.tuple_value in called)
        return [*(n for n in called if isinstance(n.checked_type, TensorType)), *items]


def _inner(node: RelayExpr) -> Sequence[RelayExpr]:
    if isinstance(node, Tuple):
        return node.fields
    assert isinstance(node, TupleGetItem)
    return (node.tuple_value,)


def _leaves(operands: Sequence[RelayExpr]) -> Iterator[RelayExpr]:
    """*operands*, a tuple by its fields."""
    stack = list(reversed(operands))
    while stack:
        node = stack.pop()
        if isinstance(node, Tuple):
            stack.extend(reversed(node.fields))
        else:
            yield node
