"""What passes state of themselves: every pass of byoc says what it ends, and has a text or a reason for none."""

import inspect

import pytest
from pass_texts import NAMES
from test_texts import CASES

from byoc.ir.passes.pass_info import PassInfo
from byoc.ir.passes.transform import Pass, PassContext
from byoc.relay import transform

# passes whose tests stand elsewhere, and why
WITHOUT_TEXT = {
    "AlterOpLayout": "needs a rule that is registered for the test: tests/relay/test_alter_op_layout.py",
    "AnnotateSpans": "spans are not in the text: tests/relay/test_text_relay.py",
    "CapturePostDfsIndexInSpans": "spans are not in the text: tests/relay/test_collage.py",
    "CollagePartition": "needs an estimator: tests/relay/test_collage.py",
    "Conv2dToSparse": "weights in arrays: tests/relay/test_data_dep_optimization.py",
    "Conv2dToSparse2": "weights in arrays, as Conv2dToSparse",
    "DenseToSparse": "weights in arrays, as Conv2dToSparse",
    "GraphVisualize": "changes nothing",
    "InferType": "changes nothing that a text shows",
    "InlineCompilerFunctionsBoundTo": "tests/relay/test_compiler_functions.py",
    "LazyGradientInit": "tests/relay/test_pass_gradient.py",
    "ManifestLifetimes": "works on what ManifestAlloc and closures give: tests/compat/test_manifest_lifetimes.py",
    "MarkCompilerFunctionsAsExtern": "tests/relay/test_compiler_functions.py",
    "OutlineCompilerFunctionsWithExistingGlobalSymbols": "tests/relay/test_compiler_functions.py",
    "PlanDevices": "tests/relay/test_plan_devices.py, text to text as well",
    "RemoveKills": "memory.kill has no numpy kernel, on which texts are run: tests/relay/test_remove_kills.py",
    "SpanCheck": "changes nothing: tests/compat/test_modules_and_names.py",
    "SpecializeShapes": "changes the types of parameters: tests/relay/test_transform_simplify.py",
}
NEEDED = {  # arguments without which a pass cannot be made
    "AnnotateTarget": (["json"],),
    "CollagePartition": (None,),
    "DenseToSparse": ([], []),
    "Conv2dToSparse": ([], [], "NHWC", 1),
    "Conv2dToSparse2": ("NHWC", 1, 1, 0.5),
    "ConvertLayout": ({},),
    "InlineCompilerFunctionsBoundTo": ([],),
    "InlineComposites": ("acme",),
    "MergeComposite": ([],),
    "PlanDevices": (None,),
    "SimplifyFCTranspose": ([],),
    "SpecializeShapes": ({},),
}


def makers():
    """The names by which passes are made."""
    found = []
    for name in transform.__all__:
        made = getattr(transform, name)
        if inspect.isfunction(made) and inspect.signature(made).return_annotation in RESULTS:
            found.append(name)
    return found


RESULTS = ("Pass", "ModulePass", "FunctionPass", "Sequential")


@pytest.mark.parametrize("name", makers())
def test_every_pass_states_what_it_ends(name):
    made = getattr(transform, name)(*NEEDED.get(name, ()))
    assert isinstance(made, Pass)
    for step in getattr(made, "passes", [made]):
        assert step.info.ends is not None, f"{step.info.name} does not say which forms of a module it ends"


def test_every_pass_has_a_text_or_a_reason_for_none():
    tested = {name for name in NAMES for _, case in CASES if f"{name}(" in case.run}
    assert sorted(set(makers()) - tested - set(WITHOUT_TEXT)) == []
    assert sorted(set(WITHOUT_TEXT) & tested) == [], "these have a text now"


def test_forms_are_no_part_of_what_makes_two_passes_equal():
    """Relay's users compare and print infos, which have no forms there."""
    assert PassInfo("P", 1, needs=["typed"]) == PassInfo("P", 1) and "typed" not in str(PassInfo("P", needs=["typed"]))
    with PassContext(disabled_pass=["P"]):
        assert PassContext.current().why_not(PassInfo("P")) == "it is disabled"
