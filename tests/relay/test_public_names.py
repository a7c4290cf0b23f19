"""The names that Relay's users write, and the order in which things may be registered."""

from __future__ import annotations

import subprocess
import sys

import pytest

from byoc import ir, relay
from byoc.errors import RegistryError
from byoc.ir.op import OPS

RELAY_NAMES = [
    "Any",
    "Call",
    "Constant",
    "Expr",
    "ExprFunctor",
    "ExprMutator",
    "ExprVisitor",
    "FuncType",
    "Function",
    "GlobalVar",
    "If",
    "Let",
    "RefCreate",
    "RefRead",
    "RefType",
    "RefWrite",
    "SequentialSpan",
    "SourceName",
    "Span",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "TupleWrapper",
    "Var",
    "add",
    "analysis",
    "astext",
    "bind",
    "const",
    "dataflow_pattern",
    "exp",
    "frontend",
    "fromtext",
    "nn",
    "op",
    "parse",
    "parse_expr",
    "reshape",
    "scalar_type",
    "transform",
    "var",
]


@pytest.mark.parametrize("name", RELAY_NAMES)
def test_relay_has_the_name(name: str) -> None:
    assert getattr(relay, name) is not None
    assert name in dir(relay)


def test_every_exported_name_exists() -> None:
    for module in (relay, ir):
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="byoc.relay has no name 'colour'"):
        _ = relay.colour
    assert not hasattr(relay, "colour")


def test_a_backend_may_annotate_an_operator_before_it_is_registered() -> None:
    program = (
        "from byoc.ir.op import OPS, register_op_attr\n"
        "register_op_attr('add', 'target.acme', print)\n"
        "from byoc import relay\n"
        "relay.add(relay.const(1.0), relay.const(2.0))\n"
        "assert OPS['add'].get_attr('target.acme') is print and OPS['add'].rel is not None\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_operator_is_registered_once() -> None:
    add = relay.add(relay.const(1.0), relay.const(2.0)).op
    with pytest.raises(RegistryError, match="operator 'add' is registered twice"):
        ir.register_op("add", inputs=["a", "b"], rel=add.rel, doc="again")
    assert OPS["add"] is add
