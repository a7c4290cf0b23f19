"""An integration written for TVM's Relay: its constants come by Relay's names, or from its constant updater."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.ir.op import register_op_attr
from byoc.ir.registry import GLOBAL_FUNCTIONS, register_func
from byoc.relay.op.contrib.register import PATTERN_TABLES, register_pattern_table
from byoc.runtime.modules.module import Module

pytestmark = pytest.mark.needs_cc
WEIGHT = np.array([[1, 2, 3], [4, 5, 6]], "float32")
NAME = "test_relay_style"


class ScaledAdd(Module):
    """``factor * (x + w)`` with the one constant that it asks for."""

    type_key = NAME

    def __init__(self, symbol, constant, factor=1):
        super().__init__()
        self._symbol, self._constant, self._factor, self._value = symbol, constant, factor, None

    @property
    def symbols(self):
        return (self._symbol,)

    def constants(self):
        return {self._symbol: [self._constant]}

    def initialize(self, symbol, constants):
        (value,) = constants
        self._value = value.numpy()

    def get_function(self, name, query_imports=False):
        def call(x, y):
            np.copyto(y.numpy(), self._factor * (x.numpy() + self._value))

        return call if name == self._symbol else None


@pytest.fixture
def integration():
    """Registers ``relay.ext.test_relay_style`` as an integration for Relay does; takes it away again."""

    def make(compiler, updater=None):
        register_pattern_table(NAME, lambda: [])
        register_op_attr("add", f"target.{NAME}", lambda call: True)
        register_func(f"relay.ext.{NAME}", compiler)
        if updater is not None:
            register_func(f"relay.ext.{NAME}.constant_updater", updater)

    yield make
    for key in [key for key in GLOBAL_FUNCTIONS if key.startswith(f"relay.ext.{NAME}")]:
        GLOBAL_FUNCTIONS.unregister(key)
    PATTERN_TABLES.unregister(NAME)
    relay.op.get("add").reset_attr(f"target.{NAME}")


def compiled():
    x = relay.var("x", shape=(2, 3))
    body = relay.exp(relay.add(x, relay.const(WEIGHT)))
    return byoc.compile(byoc.IRModule.from_expr(relay.Function([x], body)), targets=[NAME, "c"])


def test_constants_are_given_by_the_names_of_relay(integration):
    seen = []

    def compiler(function):
        seen.append(dict(function.attrs.items()))
        return ScaledAdd(function.attrs["global_symbol"], f"{function.attrs['global_symbol']}_const_0")

    integration(compiler)
    x = np.full((2, 3), -1, "float32")
    np.testing.assert_allclose(compiled()(x), np.exp(x + WEIGHT), rtol=1e-6)
    assert "Compiler" not in seen[0] and seen[0]["global_symbol"] == f"tvmgen_default_{NAME}_main_0"


def test_a_constant_updater_gives_constants_of_its_own(integration):
    def updater(function, symbol):
        return {f"{NAME}_half": WEIGHT / 2}

    integration(lambda function: ScaledAdd(function.attrs["global_symbol"], f"{NAME}_half"), updater)
    x = np.zeros((2, 3), "float32")
    np.testing.assert_allclose(compiled()(x), np.exp(WEIGHT / 2), rtol=1e-6)


def test_a_name_that_neither_has_is_refused(integration):
    integration(lambda function: ScaledAdd(function.attrs["global_symbol"], "gone"))
    with pytest.raises(
        byoc.errors.CompileError, match=r"asks for the constant 'gone'; the constants of \w+ are \w+_const_0,"
    ):
        compiled()
