"""Operators that nobody asked for yet: what users and vendors do with them works as with those that are here."""

import subprocess
import sys

import pytest


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "code",
    [
        # a vendor's attribute comes to the operator itself, whose own stay
        "from byoc.ir.op import OPS, register_op_attr\n"
        "import byoc.relay\n"
        "register_op_attr('nn.conv2d', 'target.acme', lambda call: True)\n"
        "op = OPS['nn.conv2d']\n"
        "assert op.get_attr('target.acme') and op.rel is not None and op.get_attr('FTVMLegalize') is not None",
        # a rule of a user's stands above ours, which is registered later
        "import byoc.relay\n"
        "from byoc.ir.op import OPS, register_op_attr\n"
        "mine = lambda *args: None\n"
        "register_op_attr('nn.max_pool2d', 'FInferCorrectLayout', mine)\n"
        "import byoc.relay.transform.layout.rules\n"
        "assert OPS['nn.max_pool2d'].get_attr('FInferCorrectLayout') is mine\n"
        "assert OPS['nn.avg_pool2d'].get_attr('FInferCorrectLayout') is not None",
        # a taken name is taken, and another is not
        "import byoc.relay\n"
        "from byoc.errors import RegistryError\n"
        "from byoc.ir.op import OPS, register_op\n"
        "try:\n    register_op('nn.dense', inputs=('x',), rel=lambda types, attrs: types[0], doc='mine')\n"
        "except RegistryError as error:\n    assert 'registered twice' in str(error)\n"
        "else:\n    raise AssertionError\n"
        "mine = register_op('acme.op', inputs=('x',), rel=lambda types, attrs: types[0], doc='mine')\n"
        "assert OPS['acme.op'] is mine and list(OPS)[-1] == 'acme.op'",
        # quantized operators bring their lowering and their rules
        "import byoc.relay\n"
        "from byoc.ir.op import get_op\n"
        "assert get_op('qnn.conv2d').get_attr('FTVMQnnCanonicalize')\n"
        "assert get_op('qnn.dense').get_attr('FTVMQnnLegalize')",
        # text names operators
        "from byoc import relay\n"
        "text = 'def @main(%x: Tensor[(2, 8), float32]) { nn.log_softmax(%x) }'\n"
        "mod = relay.fromtext('#[version = \"0.0.5\"]\\n' + text)\n"
        "from byoc.ir.op import get_op\n"
        "assert mod['main'].body.op is get_op('nn.log_softmax')",
        # an unknown name is reported with the nearest, of those that are deferred too
        "import byoc.relay\n"
        "from byoc.errors import RegistryError\n"
        "from byoc.ir.op import get_op\n"
        "try:\n    get_op('nn.conv2e')\n"
        "except RegistryError as error:\n    assert 'nn.conv2d' in str(error)\n"
        "else:\n    raise AssertionError",
        # classes of attributes are found by their names
        "import byoc.relay\n"
        "from byoc.ir.attrs import Attrs\n"
        "assert Attrs.class_named('LRNAttrs').__name__ == 'LRNAttrs'",
        # type relations are found by name
        "from byoc import relay\n"
        "op = relay.op.op.register('acme.same')\n"
        "op.add_type_rel('Identity')\n"
        "assert op.rel is not None",
        # a module whose name is also an operator's does not take its place
        "from byoc import relay\n"
        "import byoc.relay.op.nn.dense, byoc.relay.std, byoc.relay.bind\n"
        "assert callable(relay.nn.dense) and callable(relay.std) and callable(relay.bind)",
        # the options of contexts are known before their passes are
        "import byoc.relay\n"
        "from byoc.ir.passes.transform import PassContext\n"
        "PassContext(config={'relay.FuseOps.max_depth': 3, 'relay.ToMixedPrecision.keep_orig_output_dtype': True})",
    ],
)
def test_an_operator_is_there_before_anybody_imports_it(code):
    run(code)
