"""Hooks whose answers are verdicts and that return nothing, and a generator's hooks for what there is not."""

import re
import sys
import textwrap

import pytest
from vendor_files import BACKEND, HEAD, compiled, shown

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.contract.importing import import_backend
from byoc.errors import ByocError
from byoc.testing import certify

pytestmark = pytest.mark.needs_cc
VERDICT = r"backend 'NAME': its supports\(call\) returned None \(NAME.py:\d+\), expected a Verdict: return judge\(call"
SUPPORTS = """constraints = ()
    def supports(self, call):
        C.operators("nn.relu")(call)
"""
RELAY_STYLE = """
from byoc.ir.op import register_op_attr
from byoc.ir.registry import register_func
from byoc.relay.op.contrib import register_pattern_table

@register_op_attr("nn.relu", "target.NAME")
def relu(call):
    call.checked_type.dtype == "float32"

@register_func("relay.ext.NAME")
def ext(function):
    return M(function.attrs["global_symbol"])
"""


def reasons(name):
    """Those of the target *name* against nn.relu, as the plan's page says them."""
    plan = compiled(name).plan
    assert not plan.regions
    verdicts = next(dict(d.verdicts) for d in plan.decisions if d.operator == "nn.relu")
    return str(verdicts[name])


def matches(words, name, text):
    assert re.search(words.replace("NAME", name), text), text


def test_a_verdict_that_is_none_is_reported_with_backend_hook_and_line(vendor, capsys):
    vendor("no_verdict", BACKEND.format(SUPPORTS))
    matches(VERDICT, "no_verdict", reasons("no_verdict"))
    found = certify("no_verdict", only=["nn.relu"], saved=False)
    assert not found.ok
    matches(VERDICT, "no_verdict", str(found))
    assert main(["targets", "no_verdict"]) == 0
    matches(VERDICT, "no_verdict", " ".join(capsys.readouterr().out.split()))


def test_a_truth_value_is_still_a_verdict(vendor):
    vendor("truth_verdict", BACKEND.format('def supports(self, call): return call.op.name == "nn.relu"'))
    (region,) = compiled("truth_verdict").plan.regions
    assert region.target == "truth_verdict"


def test_a_text_is_the_reason_of_a_refusal(vendor):
    vendor("text_verdict", BACKEND.format('def supports(self, call): return "relu is not taken"'))
    assert "relu is not taken" in reasons("text_verdict")


def test_an_answer_of_another_type_is_a_refusal_with_the_line(vendor):
    vendor("pair_verdict", BACKEND.format('def supports(self, call): return False, "why"'))
    matches(
        r"its supports\(call\) returned a tuple \(NAME.py:\d+\), expected a Verdict",
        "pair_verdict",
        reasons("pair_verdict"),
    )


def test_a_relay_style_predicate_that_is_none_is_reported(vendor):
    vendor("no_truth", RELAY_STYLE)
    words = (
        r"backend 'NAME': its predicate target.NAME of nn.relu returned None \(NAME.py:\d+\), expected True or False"
    )
    matches(words, "no_truth", reasons("no_truth"))
    x = relay.var("x", shape=(2, 3))
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))))
    with pytest.raises(ByocError) as raised:
        relay.transform.AnnotateTarget(["no_truth"])(mod)
    shown(
        raised, r"target 'NAME': its predicate for nn.relu returned None \(NAME.py:\d+\), expected True or", "no_truth"
    )


def test_a_check_of_a_pattern_that_is_none_is_reported(vendor):
    text = """constraints = (C.operators("NAME.p"),)
    def patterns(self): return [("NAME.p", is_op("nn.relu")(wildcard()), dtype_is_float)]
    """
    check = "def dtype_is_float(root):\n    'floats'\n    root.checked_type.dtype == 'float32'\n"
    vendor("no_check", check + BACKEND.format(text))
    matches(r"it returned None \(NAME.py:\d+\), expected True or False: its return is missing", "no_check",
            str(compiled("no_check").plan))  # fmt: skip


def test_options_at_places_that_are_none(vendor):
    text = """options = ("speed",)
    def places(self): return ("NAME/float/any",)
    def options_at(self, places, options): dict(options)
    """
    vendor("no_options", BACKEND.format(text))
    with pytest.raises(ByocError) as raised:
        compiled("no_options", policy="score")
    shown(
        raised, r"backend 'NAME': its options_at\(places, options\) gave None \(NAME.py:\d+\), expected", "no_options"
    )


GENERATOR = """
from byoc.contract import RegionGenerator, makes
class Steps(RegionGenerator):
    def input(self, spec): return spec.name
    @makes({names})
    def one(self, node, x): return x
    def compile(self, results): return M(self.symbol)
"""
PATTERNS = """
    def patterns(self): return [("NAME.pair", is_op("exp")(is_op("nn.relu")(wildcard())))]
    def compile(self, function, options): {compile}
"""
NAMED = "return Steps(function, options).generate()"
HIDDEN = "return globals()['St' + 'eps'](function, options).generate()"


@pytest.mark.parametrize("compiles", [NAMED, HIDDEN], ids=["named", "hidden"])
@pytest.mark.parametrize(
    ("wrong", "near"), [("nn.rellu", "nn.relu"), ("NAME.pear", "NAME.pair")], ids=["operator", "composite"]
)
def test_a_hook_of_what_there_is_not_names_the_nearest(vendor, compiles, wrong, near, request):
    """Where the code of ``compile`` names its generator, even if no region is made; else with the first region."""
    name = f"hook_{request.node.callspec.id.replace('-', '_')}"
    names = f'"nn.relu", "NAME.pair", "{wrong}"'
    limits = 'constraints = (C.operators("nn.relu", "NAME.pair"), C.static_sizes())' + PATTERNS.format(compile=compiles)
    vendor(name, GENERATOR.format(names=names) + BACKEND.format(limits))
    with pytest.raises(ByocError) as raised:
        compiled(name)
    words = rf"the hook Steps.one \(NAME.py:\d+\) is about '{wrong}', which is neither an operator nor one of its patt"
    shown(raised, f"{words}erns; the nearest: {near}", name)


def test_hooks_of_what_there_is_are_taken(vendor):
    limits = 'constraints = (C.operators("nn.relu", "NAME.pair"),)' + PATTERNS.format(compile=NAMED)
    vendor("hook_right", GENERATOR.format(names='"nn.relu", "NAME.pair", "blas.dense_bias"') + BACKEND.format(limits))
    assert len(compiled("hook_right").plan.regions) == 1


def test_a_hook_that_was_mended_in_a_notebook_is_no_longer_reported(tmp_path, of_this_test):
    """The cell of the generator runs again, that of the backend does not."""
    text = GENERATOR.format(names='"nn.relu", "nn.rellu"') + BACKEND.format(
        f"def compile(self, function, options): {NAMED}"
    )
    path = tmp_path / "hook_again.py"
    path.write_text((HEAD + textwrap.dedent(text)).replace("NAME", "hook_again"))
    import_backend(str(path))
    with pytest.raises(ByocError, match="nearest: nn.relu"):
        compiled("hook_again")
    space = vars(sys.modules["hook_again"])
    exec(textwrap.dedent(GENERATOR.format(names='"nn.relu"')).replace("NAME", "hook_again"), space)
    assert len(compiled("hook_again").plan.regions) == 1
