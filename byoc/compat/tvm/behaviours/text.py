"""Relay's text format, structural equality, names."""

from __future__ import annotations

import importlib
from types import ModuleType

from byoc.compat.tvm.behaviours import behaviour

AREA = "text"


@behaviour(AREA, "integers that do not fit int32 are int64")
def _integers(tvm: ModuleType, relay: ModuleType) -> None:
    assert [relay.parse_expr(t).data.dtype for t in ("2147483647", "2147483648")] == ["int32", "int64"]


@behaviour(AREA, "floats that do not fit their dtype are errors")
def _floats(tvm: ModuleType, relay: ModuleType) -> None:
    for text in ("3.40283e+38f32", "65505f16"):
        try:
            relay.parse_expr(text)
        except tvm.error.DiagnosticError:
            continue
        raise AssertionError(f"{text} was read")


@behaviour(AREA, "an attribute that is None prints as None")
def _none(tvm: ModuleType, relay: ModuleType) -> None:
    x = relay.var("x", shape=(2,))
    assert "Some=None" in relay.Function([x], x).with_attr("Some", None).astext()


@behaviour(AREA, "a size that is a variable stands in the metadata")
def _size_variable(tvm: ModuleType, relay: ModuleType) -> None:
    te = importlib.import_module("tvm.te")
    text = relay.Function([x := relay.var("x", shape=(te.size_var("n"), 2))], x).astext()
    assert "meta[tir.SizeVar][0]" in text and "type_key" in text


@behaviour(AREA, "type relations are equal where their attributes are")
def _relations(tvm: ModuleType, relay: ModuleType) -> None:
    func = tvm.ir.EnvFunc.get("tvm.relay.type_relation.Broadcast")
    attrs = (tvm.ir.make_node("attrs.TestAttrs", name="a", padding=(3, 4)) for _ in range(2))
    one, same = (relay.TypeRelation(func, [relay.TensorType((2,))], 1, given) for given in attrs)
    assert one == same


@behaviour(AREA, "attributes that map parameters are compared with parameters paired")
def _mapped(tvm: ModuleType, relay: ModuleType) -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    one, other = (relay.Function([v], v).with_attr("m", {v.vid: 1}) for v in (x, y))
    assert tvm.ir.structural_equal(one, other)


@behaviour(AREA, "a span may have no source, and survives JSON")
def _span(tvm: ModuleType, relay: ModuleType) -> None:
    made = relay.Span(None, 1, 2, 3, 4)
    assert tvm.ir.load_json(tvm.ir.save_json(made)).same_as(made) and str(made)


@behaviour(AREA, "fresh global names of a module have its name before them")
def _supply(tvm: ModuleType, relay: ModuleType) -> None:
    supply = importlib.import_module("tvm.ir.supply").GlobalVarSupply(tvm.IRModule.from_expr(relay.const(1)))
    assert supply.fresh_global("f").name_hint == "tvmgen_default_f"


@behaviour(AREA, "attributes are left out where they are the defaults of the classes, not of the functions")
def _attributes(tvm: ModuleType, relay: ModuleType) -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    assert "nn.lrn(%x, alpha=1e-05f)" in relay.nn.lrn(x).astext()
    assert 'cast(%x, dtype="float32")' in relay.cast(x, "float32").astext()
    assert "padding=[0, 0, 0, 0]" in relay.nn.conv2d(x, relay.var("w")).astext()
