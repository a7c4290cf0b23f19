"""From a function of the graph language to bytecode.

Requires typed functions. Each expression is evaluated in the innermost scope that holds all its uses, in post-order:
once for each activation, and within a branch only where that branch needs it. A nested function becomes a function of
the program, with what it uses from outside as captured values. A call whose result is returned is followed by the
return, which makes it a tail call. Source: ``src/relay/backend/vm/compiler.cc``; scopes as in ToBasicBlockNormalForm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.driver.bytecode.calls import emit_call
from byoc.driver.bytecode.function_builder import CodeBuilder, Jump
from byoc.driver.bytecode.program import ProgramBuilder, param_type
from byoc.driver.bytecode.tensors import Part, Tensors
from byoc.errors import CompileError
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.relay.adt import Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from byoc.relay.analysis.operator_calls import located
from byoc.relay.analysis.scopes import Scopes, scope_children
from byoc.relay.expr import (
    Call,
    Constant,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from byoc.relay.text.trampoline import Step, run
from byoc.relay.traverse import post_order
from byoc.runtime.vm.instructions import (
    AllocADT,
    AllocClosure,
    AllocRef,
    Fatal,
    GetField,
    GetTag,
    LoadConst,
    LoadConsti,
    Move,
    ReadRef,
    Ret,
    WriteRef,
)
from byoc.runtime.vm.program import VMFunction

UNITS = ("Primitive", "Composite", "Compiler")
_NAMES = (Op, GlobalVar, Constructor, Var, Constant)


def is_unit(node: RelayExpr) -> bool:
    """True for a function that is compiled as a whole: fused, of a pattern, or of another compiler."""
    return isinstance(node, Function) and any(node.attrs.get(key) for key in UNITS)


class ScopedGraph:
    """One global function: which nodes each scope evaluates, in order, and what variables of lets stand for."""

    def __init__(self, root: Function):
        self.scopes = Scopes(root)
        self.nodes: dict[int, list[RelayExpr]] = {}
        self.let_values: dict[Var, RelayExpr] = {}
        callees: set[RelayExpr] = set()
        values: set[RelayExpr] = set()
        for node in post_order(root, scope_children):
            if not isinstance(node, _NAMES):
                self.nodes.setdefault(self.scopes.of[node], []).append(node)
            if isinstance(node, Let):
                self.let_values[node.variable] = node.value
            if isinstance(node, Call):
                callees.add(node.op)
            values.update(node.args if isinstance(node, Call) else scope_children(node))
        self.only_called = {node for node in callees if is_unit(node) and node not in values}

    def inner(self, node: RelayExpr, index: int = 0) -> Sequence[RelayExpr]:
        """What the scope number *index* that *node* opens evaluates."""
        return self.nodes.get(self.scopes.opened[node][index], ())


class FunctionLowering:
    """The lowering of one function; *outer* is that of the function around it."""

    def __init__(
        self, program: ProgramBuilder, graph: ScopedGraph, function: Function, outer: FunctionLowering | None = None
    ):
        self.program, self.graph, self.function, self.outer = program, graph, function, outer
        self.code = CodeBuilder()
        self.values: dict[RelayExpr, int] = {}
        self.captured: dict[RelayExpr, int] = {}
        self.own = -1
        self.tensors = Tensors(self.code, self.register)
        for param in function.params:
            self.values[param] = self.code.new_register()

    def lower(self, place: int, name: str) -> Step[None]:
        """Enter the function into the program under *place*."""
        body = self.function.body
        yield self._scope(self.graph.inner(self.function), body, True)
        self.program.put(
            place,
            VMFunction(
                name,
                tuple(p.name_hint for p in self.function.params),
                tuple(self.code.instructions),
                self.code.registers,
                tuple(param_type(p.name_hint, p.checked_type_) for p in self.function.params),
                tuple(self.captured.values()),
                self.own,
            ),
        )

    # where values are -----------------------------------------------------------------------------------------------

    def register(self, part: Part) -> int:
        """The register that holds *part*: an expression, a register, or the parts of a tuple."""
        if isinstance(part, int):
            return part
        if isinstance(part, list):
            fields = tuple([self.register(p) for p in part])
            return self.code.into_new(lambda r: AllocADT(r, 0, fields))
        node = self._resolved(part)
        if node in self.values:
            return self.values[node]
        if node in self.tensors.parts:
            return self.register(self.tensors.parts[node])
        rule = _NAMED.get(type(node))
        if rule is not None:
            return rule(self, node)
        if node is self.function:
            self.own = self.values[node] = self.code.new_register()
            return self.own
        if self.outer is None:
            what = f"variable %{node.name_hint}" if isinstance(node, Var) else f"a {type(node).__name__}"
            raise CompileError(f"{what} has no value where it is used{located(node)}: it is free in the function")
        self.captured[node] = self.values[node] = self.code.new_register()
        return self.values[node]

    def _resolved(self, node: RelayExpr) -> RelayExpr:
        """What a variable of a let, or a let itself, stands for."""
        while node not in self.values:
            if isinstance(node, Let):
                node = node.body
            elif isinstance(node, Var) and node in self.graph.let_values:
                node = self.graph.let_values[node]
            else:
                break
        return node

    def is_inlined(self, function: Function) -> bool:
        """True for a unit that is called where it stands, so that no closure of it is made."""
        return function in self.graph.only_called or (function is self.function and is_unit(function))

    def parts_of(self, node: RelayExpr) -> Part:
        """The parts of a tuple where they are known here, else the expression itself."""
        resolved = self._resolved(node)
        return self.tensors.parts.get(resolved, resolved)

    def _load_constant(self, constant: Constant) -> int:
        index = self.program.constant(constant.data)
        return self.code.into_new(lambda r: LoadConst(r, index))

    def _global(self, var: GlobalVar) -> int:
        place = self.program.place_of(var)
        return self.code.into_new(lambda r: AllocClosure(r, place, ()))

    def _constructor(self, constructor: Constructor) -> int:
        place = self.program.constructor(constructor)
        return self.code.into_new(lambda r: AllocClosure(r, place, ()))

    # scopes and nodes -----------------------------------------------------------------------------------------------

    def _scope(self, nodes: Sequence[RelayExpr], root: RelayExpr, tail: bool) -> Step[bool]:
        """Evaluate *nodes* in order; with *tail* return the value of *root*, and say whether that is done."""
        done = False
        for node in nodes:
            if node in self.graph.only_called:
                continue
            done = yield self._node(node, tail and node is root and node is nodes[-1])
        if tail and not done:
            self.code.emit(Ret(self.register(root)))
        return tail

    def _node(self, node: RelayExpr, tail: bool) -> Step[bool]:
        rule = _STEPS.get(type(node))
        if rule is not None:
            done: bool = yield rule(self, node, tail)
            return done
        return _RULES[type(node)](self, node, tail)

    def _let(self, let: Let, tail: bool) -> Step[bool]:
        done: bool = yield self._scope(self.graph.inner(let), let.body, tail)
        return done

    def _if(self, node: If, tail: bool) -> Step[bool]:
        test = self.register(node.cond)
        one = self.code.into_new(lambda r: LoadConsti(r, 1))
        otherwise = self.code.jump_unless(test, one)
        result = -1 if tail else self.code.new_register()
        end = yield self._branch(self.graph.inner(node, 0), node.true_branch, tail, result)
        self.code.land(otherwise)
        last = yield self._branch(self.graph.inner(node, 1), node.false_branch, tail, result)
        return self._join(node, [*end, *last], tail, result)

    def _branch(self, nodes: Sequence[RelayExpr], root: RelayExpr, tail: bool, result: int) -> Step[list[Jump]]:
        """A branch, which returns, or puts its value into *result* and jumps to the end."""
        yield self._scope(nodes, root, tail)
        if tail:
            return []
        self.code.emit(Move(result, self.register(root)))
        return [self.code.jump()]

    def _join(self, node: RelayExpr, ends: Sequence[Jump], tail: bool, result: int) -> bool:
        for jump in ends:
            self.code.land(jump)
        if not tail:
            self.values[node] = result
        return tail

    def _match(self, match: Match, tail: bool) -> Step[bool]:
        data = self.register(match.data)
        result = -1 if tail else self.code.new_register()
        ends: list[Jump] = []
        for index, clause in enumerate(match.clauses):
            misfits = self._pattern(clause.lhs, data)
            ends += yield self._branch(self.graph.inner(match, index), clause.rhs, tail, result)
            for jump in misfits:
                self.code.land(jump)
        text = f"no clause of a match fits its value{located(match)}: add one, or a wildcard as the last"
        self.code.emit(Fatal(text))
        return self._join(match, ends, tail, result)

    def _pattern(self, pattern: Pattern, data: int) -> list[Jump]:
        """Test the value in *data* and bind variables; the jumps are taken where it does not fit."""
        misfits: list[Jump] = []
        pending = [(pattern, data)]
        while pending:
            part, register = pending.pop()
            if isinstance(part, PatternVar):
                self.values[part.var] = register
            elif isinstance(part, (PatternConstructor, PatternTuple)):
                if isinstance(part, PatternConstructor):
                    misfits.append(self._tag_test(part.constructor, register))
                inner = [(p, self._field(register, k)) for k, p in enumerate(part.patterns) if _binds(p)]
                pending.extend(reversed(inner))
        return misfits

    def _tag_test(self, constructor: Constructor, register: int) -> Jump:
        tag = self.code.into_new(lambda r: GetTag(r, register))
        wanted = self.code.into_new(lambda r: LoadConsti(r, constructor.tag))
        return self.code.jump_unless(tag, wanted)

    def _field(self, register: int, index: int) -> int:
        return self.code.into_new(lambda r: GetField(r, register, index))

    def _function(self, function: Function, tail: bool) -> Step[bool]:
        place = self.program.new_place()
        inner = FunctionLowering(self.program, self.graph, function, self)
        if is_unit(function):
            inner.return_unit(function)
            self.program.put(place, inner.unit(self.program.lifted_name()))
        else:
            yield inner.lower(place, self.program.lifted_name())
        captured = tuple([self.register(node) for node in inner.captured])
        self.values[function] = self.code.into_new(lambda r: AllocClosure(r, place, captured))
        return False

    def return_unit(self, function: Function) -> None:
        """The body of a unit that is used as a value: the call of what it is compiled to."""
        call = Call(function, function.params)
        call._checked_type = function.body.checked_type
        emit_call(self, call)
        self.code.emit(Ret(self.register(call)))

    def unit(self, name: str) -> VMFunction:
        """The finished function of a unit, which captures nothing."""
        params = self.function.params
        types = tuple(param_type(p.name_hint, p.checked_type_) for p in params)
        code = tuple(self.code.instructions)
        return VMFunction(name, tuple(p.name_hint for p in params), code, self.code.registers, types)

    def _call(self, call: Call, tail: bool) -> bool:
        emit_call(self, call)
        return False

    def _tuple(self, node: Tuple, tail: bool) -> bool:
        self.tensors.parts[node] = list(node.fields)
        return False

    def _item(self, item: TupleGetItem, tail: bool) -> bool:
        parts = self.parts_of(item.tuple_value)
        if not isinstance(parts, list):
            register = self.register(parts)
            self.values[item] = self._field(register, item.index)
        elif isinstance(parts[item.index], list):
            self.tensors.parts[item] = parts[item.index]
        else:
            self.values[item] = self.register(parts[item.index])
        return False

    def _ref_create(self, node: RefCreate, tail: bool) -> bool:
        value = self.register(node.value)
        self.values[node] = self.code.into_new(lambda r: AllocRef(r, value))
        return False

    def _ref_read(self, node: RefRead, tail: bool) -> bool:
        ref = self.register(node.ref)
        self.values[node] = self.code.into_new(lambda r: ReadRef(r, ref))
        return False

    def _ref_write(self, node: RefWrite, tail: bool) -> bool:
        self.code.emit(WriteRef(self.register(node.ref), self.register(node.value)))
        self.tensors.parts[node] = []
        return False


def _binds(pattern: Pattern) -> bool:
    """True for a pattern that looks at its value."""
    return isinstance(pattern, (PatternConstructor, PatternTuple, PatternVar))


_NAMED: dict[type, Callable[..., int]] = {
    Constant: FunctionLowering._load_constant,
    GlobalVar: FunctionLowering._global,
    Constructor: FunctionLowering._constructor,
}

_STEPS: dict[type, Callable[..., Step[bool]]] = {
    Let: FunctionLowering._let,
    If: FunctionLowering._if,
    Match: FunctionLowering._match,
    Function: FunctionLowering._function,
}

_RULES: dict[type, Callable[..., bool]] = {
    Call: FunctionLowering._call,
    Tuple: FunctionLowering._tuple,
    TupleGetItem: FunctionLowering._item,
    RefCreate: FunctionLowering._ref_create,
    RefRead: FunctionLowering._ref_read,
    RefWrite: FunctionLowering._ref_write,
}


def lower_function(program: ProgramBuilder, var: GlobalVar, function: Function) -> None:
    """Enter the global *function* and all functions inside it into *program*.

    Raises CompileError for a free variable or a name that the module lacks.
    """
    run(FunctionLowering(program, ScopedGraph(function), function).lower(program.place_of(var), var.name_hint))
