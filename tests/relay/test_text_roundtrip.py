"""Printing and parsing are inverse: on graphs with every class of node, hostile names, and on random graphs."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byoc import relay
from byoc.errors import ParseError
from byoc.ir.op import get_op
from byoc.relay.text import parse_untyped
from byoc.relay.traverse import post_order
from byoc.runtime.core.ndarray import NDArray

HOSTILE = [
    "plain",
    "conv1.weight",
    "layers.0.weight",
    "with space",
    'quo"te',
    "back\\slash",
    "/a/b",
    "*/",
    "/*",
    "//",
    "#[metadata]",
    "x#1",
    "0",
    "7up",
    "",
    "é",
    "日本",
    "line\nbreak",
    "tab\t",
    "\x00",
    "%x",
    "@f",
    "let",
    "fn",
    "True",
    "a:1:2",
    "a + b",
    "x.0",
    "\u2028",
    "😀",
]


def names(mod: relay.IRModule) -> list[tuple[str, str, str]]:
    """Class, variable name and span of every node but constants, in post-order."""
    rows = []
    for func in mod.functions.values():
        for node in post_order(func):
            if not isinstance(node, relay.Constant):
                rows.append((type(node).__name__, getattr(node, "name_hint", ""), str(node.span)))
    return rows


def check(mod: relay.IRModule) -> relay.IRModule:
    text = mod.astext()
    is_typed = all(func.checked_type_ is not None for func in mod.functions.values())
    again = relay.parse(text) if is_typed else parse_untyped(text)
    relay.assert_structural_equal(again, mod)
    assert relay.structural_hash(again) == relay.structural_hash(mod)
    assert names(again) == names(mod)
    assert again.astext() == text
    return again


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_survive(name: str) -> None:
    span = relay.SequentialSpan((relay.Span.named(name), relay.Span(relay.SourceName(name), 1, 2, 3, 4)))
    x = relay.Var(name, relay.TensorType((relay.Any(name), 2)), span)
    y = relay.Var(name, relay.TensorType((2,)))
    e = relay.exp(relay.add(x, y))
    e.span = span
    inner = relay.Function([y], e, attrs={name: name, "Composite": f"a.{name}"}, span=relay.Span.named(name))
    mod = relay.IRModule({"main": relay.Function([x], relay.Call(inner, [relay.const([1.0, 2.0])]))})
    mod[name] = relay.Function([], relay.Call(mod.get_global_var("main"), [relay.const(1)]))
    mod.attrs[name] = {name: (1, 2.0, None, True, name)}
    again = check(mod)
    assert again.attrs == mod.attrs
    assert list(again["main"].body.op.attrs.items()) == list(inner.attrs.items())


def test_every_class_of_node_survives_with_its_span() -> None:
    counter = iter(range(100))

    def span() -> relay.Span:
        return relay.Span(relay.SourceName("n"), next(counter) + 1, 0, 1, 0)

    x, r, f, a = (relay.Var(n, relay.TensorType((relay.Any(),)) if n == "x" else None, span()) for n in "xrfa")
    made = relay.RefCreate(x, span())
    closure = relay.Function([a], relay.Tuple([a, relay.RefRead(r, span())], span()), span=span())
    called = relay.Call(f, [relay.const(2.0, span=span())], span=span())
    branch = relay.If(
        relay.const(True, span=span()),
        relay.TupleGetItem(called, 1, span()),
        relay.Let(relay.Var("_", None), relay.RefWrite(r, x, span()), x, span()),
        span(),
    )
    body = relay.Let(r, made, relay.Let(f, closure, branch, span()), span())
    check(relay.IRModule({"main": relay.Function([x], body, relay.TupleType([]), attrs={"Primitive": 1}, span=span())}))


def test_a_shared_let_stays_shared() -> None:
    v, c = relay.var("v"), relay.var("c", "bool")
    let = relay.Let(v, relay.exp(relay.const(1.0)), relay.add(v, v))
    again = check(relay.IRModule({"main": relay.Function([c], relay.If(c, let, let))}))
    assert again["main"].body.true_branch is again["main"].body.false_branch
    w = relay.var("v")
    nested = relay.add(relay.Let(w, relay.const(1), w), relay.exp(let))
    check(relay.IRModule({"main": relay.Function([], relay.Tuple([nested, nested]))}))


@pytest.mark.parametrize(
    "array",
    [
        np.array(np.nan, "float32"),
        np.array(np.inf, "float16"),
        np.array(-0.0, "float32"),
        np.array(0.1, "float64"),
        np.zeros((0, 3), "int64"),
        np.array([True, False]),
        np.arange(6, dtype=">i4").reshape(2, 3)[:, ::2],
        np.array(["a", "é", '"'], object),
        np.array([b"\xff", "x"], object),
        np.array("text", object),
        np.array(2**64 - 1, "uint64"),
        np.array(-(2**63), "int64"),
    ],
    ids=lambda a: f"{a.dtype}-{a.shape}-{a.ravel()[:1].tolist()}",
)
def test_constants_survive_bit_by_bit(array: np.ndarray) -> None:
    again = check(relay.IRModule({"main": relay.Function([], relay.Constant(NDArray(array)))}))
    data = again["main"].body.data.numpy()
    assert data.shape == array.shape
    if array.dtype == object:
        assert data.tolist() == array.tolist()
    else:
        assert data.tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()


def test_ten_megabytes_of_weights_are_written_once_and_read_back() -> None:
    weights = NDArray(np.random.default_rng(0).standard_normal(2_500_000).astype("float32"))
    both = relay.Tuple([relay.Constant(weights), relay.Constant(weights)])
    mod = relay.IRModule({"main": relay.Function([], both)})
    text = mod.astext()
    assert len(text) < 1.4 * weights.nbytes
    first, second = parse_untyped(text)["main"].body.fields
    assert first is second
    assert first.data.numpy().tobytes() == weights.numpy().tobytes()


@pytest.mark.parametrize("name", ["mnist", "face_rfb_320"])
def test_a_real_model_survives_with_the_names_of_its_nodes(name: str) -> None:
    path = pathlib.Path(__file__).parents[2] / ".." / "shared" / "models" / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"needs {path.name} beside the repository")
    mod, _ = relay.frontend.from_onnx(str(path))
    again = check(mod)
    assert any(span not in ("", "None") for _, _, span in names(again))


@st.composite
def modules(draw: st.DrawFn) -> relay.IRModule:
    """A random module: calls over shared operands, closures, lets, ifs, tuples, odd names and spans."""
    name = st.sampled_from(HOSTILE)
    dims = st.lists(st.integers(0, 5) | st.builds(relay.Any, name), max_size=3)

    def span() -> relay.Span | None:
        return draw(st.none() | st.builds(relay.Span.named, name))

    def body(pool: list[relay.Expr], depth: int) -> relay.Expr:
        pool = list(pool)
        for _ in range(draw(st.integers(1, 5))):
            pool.append(node(pool, depth))
        return pool[-1]

    def some(pool: list[relay.Expr]) -> relay.Expr:
        return draw(st.sampled_from(pool))

    def node(pool: list[relay.Expr], depth: int) -> relay.Expr:
        kind = draw(st.integers(0, 9 if depth < 3 else 5))
        if kind == 0:
            value = draw(st.sampled_from([np.float32(0.1), np.arange(3), np.bool_(True), np.int32(1)]))
            return relay.Constant(NDArray(value), span())
        if kind == 1:
            return relay.Tuple([some(pool) for _ in range(draw(st.integers(0, 3)))], span())
        if kind == 2:
            return relay.TupleGetItem(some(pool), draw(st.integers(0, 9)), span())
        if kind in (3, 4):
            if kind == 3:
                return relay.Call(get_op("add"), [some(pool), some(pool)], span=span())
            attrs = relay.clip(relay.const(1.0), draw(st.floats()), 1.0).attrs
            return relay.Call(get_op("clip"), [some(pool)], attrs, span=span())
        if kind == 5:
            return relay.RefWrite(some(pool), relay.RefRead(relay.RefCreate(some(pool))), span())
        if kind in (6, 7):
            v = relay.Var(draw(name), draw(st.none() | st.builds(relay.TensorType, dims)), span())
            if kind == 6:
                return relay.Let(v, body(pool, depth + 1), body([*pool, v], depth + 1), span())
            value = st.integers() | st.floats(allow_nan=False) | name | st.booleans()
            attrs = draw(st.dictionaries(name, value, max_size=2))
            closure = relay.Function([v], body([*pool, v], depth + 1), attrs=attrs, span=span())
            return relay.Call(closure, [some(pool)], span=span())
        return relay.If(some(pool), body(pool, depth + 1), body(pool, depth + 1), span())

    mod = relay.IRModule()
    for title in draw(st.lists(name, min_size=1, max_size=2, unique=True)):
        params = [relay.Var(draw(name), relay.TensorType(draw(dims)), span()) for _ in range(draw(st.integers(1, 3)))]
        mod[title] = relay.Function(params, body(list(params), 0), span=span())
    return mod


@settings(max_examples=80, deadline=None)
@given(modules())
def test_random_modules_survive(mod: relay.IRModule) -> None:
    check(mod)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_with_a_parse_error(text: str) -> None:
    for source in (text, f"def @main() {{ {text} }}"):
        try:
            parse_untyped(source)
        except ParseError as error:
            assert str(error)
