"""The pipeline of byoc.compile: read, edited by name, run, and what is said of mistakes."""

from __future__ import annotations

import inspect
import logging
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.driver import model as module_maker
from byoc.driver.library_key import request_text
from byoc.driver.options import CompileRequest
from byoc.driver.pipeline import HOST, SIMPLIFY, optimize, pipeline, prepare_host
from byoc.errors import CompileError, InternalError, RegistryError, UserError
from byoc.ir.passes.instrument import PassTimingInstrument
from byoc.ir.passes.pass_info import PassOrderError
from byoc.ir.passes.transform import ModulePass, PassContext, Sequential, module_pass
from byoc.partition.plan.plan import Plan
from byoc.relay.transform import EliminateCommonSubexpr, FunctionPass, function_pass

DIGITS = str(pathlib.Path(__file__).parents[2] / "examples/digits/digits.onnx")


def step(name="Mine", run=lambda mod, ctx: mod):
    return module_pass(run, opt_level=0, name=name)


def network():
    x = relay.var("x", shape=(2, 3))
    return relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.add(relay.exp(x), relay.exp(x)))))


def names(stage, edited):
    return list(edited.stages[stage])


# reading and editing ------------------------------------------------------------------------------------------------


def test_every_pass_has_a_name_of_its_own_in_its_stage():
    found = byoc.pipeline()
    assert list(found.stages) == [SIMPLIFY, HOST] and len(set(found.names)) == len(found.names)
    assert names(SIMPLIFY, found)[0] == "InferType" and "FoldConstant.2" in names(SIMPLIFY, found)
    assert names(HOST, found)[-3:] == ["FuseOps", "JoinGroups", "InferType.3"]


def test_passes_are_put_before_and_after_others():
    base = pipeline()
    edited = base.insert_before("FoldConstant", step("A"), step("B")).insert_after("FuseOps", step("C"))
    at = names(SIMPLIFY, edited).index("FoldConstant")
    assert names(SIMPLIFY, edited)[at - 2 : at] == ["A", "B"]
    assert names(HOST, edited)[-3:] == ["C", "JoinGroups", "InferType.3"]
    assert "A" not in base.names, "a pipeline is a value"


def test_one_pass_may_stand_twice():
    edited = pipeline().insert_after("FoldConstant", step()).insert_after("FoldConstant.2", step())
    assert "Mine" in edited.names and "Mine.2" in edited.names
    assert "EliminateCommonSubexpr.2" in pipeline().insert_before("InferType.2", EliminateCommonSubexpr()).names


def test_a_pass_is_put_in_by_its_registered_name():
    assert "GraphVisualize" in pipeline().insert_after("SimplifyExpr", "graph_visualize").names
    with pytest.raises(RegistryError, match="no pass is registered as 'no_such'"):
        pipeline().insert_after("SimplifyExpr", "no_such")


def test_a_name_removes_all_passes_of_the_name_and_a_number_one():
    assert not [name for name in pipeline().remove("FoldConstant").names if name.startswith("FoldConstant")]
    one = pipeline().remove("FoldConstant.2").names
    assert "FoldConstant" in one and "FoldConstant.2" not in one and "FoldConstant.3" in one
    assert "FoldConstant.3" in pipeline().remove("FoldConstant.2").insert_before("FoldConstant.3", step()).names


def test_passes_change_places():
    edited = pipeline().move("EliminateCommonSubexpr", before="FoldConstant")
    found = names(SIMPLIFY, edited)
    assert found.index("EliminateCommonSubexpr") == found.index("FoldConstant") - 1
    across = pipeline().move("CarryViews", after="EliminateCommonSubexpr")
    assert "CarryViews" in across.stages[SIMPLIFY] and "CarryViews" not in across.stages[HOST]


def test_a_pass_is_replaced_by_another():
    edited = pipeline().replace("SimplifyExpr", step("Mine"))
    at = names(SIMPLIFY, pipeline()).index("SimplifyExpr")
    assert names(SIMPLIFY, edited)[at] == "Mine" and "SimplifyExpr" not in edited.names


def test_the_text_has_a_line_for_each_pass():
    text = str(pipeline().insert_after("InferType", step()))
    assert text.startswith("simplify:\n  InferType\n  Mine  (yours)\n  LowerOnnxQuantization  (with ")
    assert "  FastMath  (from level 4)\n" in text and "\nhost:\n" in text


@pytest.mark.parametrize(
    "edit",
    [
        lambda p: p.insert_before("FoldConstnat", step()),
        lambda p: p.insert_after("FoldConstnat", step()),
        lambda p: p.remove("FoldConstnat"),
        lambda p: p.replace("FoldConstnat", step()),
        lambda p: p.move("FoldConstnat", before="FuseOps"),
        lambda p: p.move("FuseOps", after="FoldConstnat"),
    ],
)
def test_a_wrong_name_is_reported_with_the_nearest(edit):
    with pytest.raises(UserError, match="the pipeline has no pass 'FoldConstnat'; the nearest: FoldConstant"):
        edit(pipeline())


def test_a_number_that_is_not_there_is_refused():
    with pytest.raises(UserError, match=r"has no pass 'FuseOps\.2'"):
        pipeline().remove("FuseOps.2")


def test_what_is_no_pass_and_half_a_move_are_refused():
    with pytest.raises(TypeError, match="a pipeline holds passes, got function"):
        pipeline().insert_before("FuseOps", lambda mod, ctx: mod)
    with pytest.raises(UserError, match="say before which pass, or after which"):
        pipeline().move("FuseOps")
    with pytest.raises(UserError, match="cannot stand before or after itself"):
        pipeline().move("FuseOps", before="FuseOps")


def test_an_order_in_which_a_pass_lacks_what_it_needs_is_refused():
    with pytest.raises(PassOrderError, match="ChannelsLast needs the form unfused .* which FuseOps before it ends"):
        pipeline().move("ChannelsLast", after="FuseOps")


def test_groups_before_the_cut_are_refused_unless_they_are_taken_apart_again():
    with pytest.raises(PassOrderError, match="behind stage simplify needs the form unfused .* which FuseOps ends"):
        pipeline().move("FuseOps", before="FoldConstant")
    apart = pipeline().insert_after("InferType.2", relay.transform.FuseOps(), relay.transform.DefuseOps())
    assert apart.stages[SIMPLIFY][-2:] == ("FuseOps.2", "DefuseOps")


# compiling ----------------------------------------------------------------------------------------------------------


@pytest.mark.needs_cc
def test_a_model_is_compiled_by_the_edited_pipeline():
    seen = []

    @function_pass(opt_level=0, name="Tell")
    def tell(func, mod, ctx):
        seen.append(func)
        return func

    plain, edited = byoc.compile(network()), byoc.compile(network(), pipeline=pipeline().insert_before("FuseOps", tell))
    assert len(seen) == 1
    x = np.random.default_rng(0).standard_normal((2, 3), "float32")
    assert np.array_equal(plain(x)[0], edited(x)[0])


@pytest.mark.needs_cc
def test_regions_on_the_host_and_written_c_follow_the_pipeline(tmp_path):
    seen = []

    @function_pass(opt_level=0, name="Tell")
    def tell(func, mod, ctx):
        seen.append(func)
        return func

    edited = pipeline().insert_before("FuseOps", tell)
    byoc.compile(network(), ["json", "c"], fallback=True, pipeline=edited)
    assert len(seen) == 2, "the host's share, and the host's version of the region"
    byoc.export_c(network(), tmp_path, pipeline=edited)
    assert len(seen) == 3


def test_a_plan_is_made_of_what_the_pipeline_gives():
    assert len(byoc.plan(network()).decisions) == 3
    assert len(byoc.plan(network(), pipeline=pipeline().remove("EliminateCommonSubexpr")).decisions) == 4


def test_a_disabled_pass_is_left_out_and_reported(caplog):
    with PassContext(disabled_pass=["EliminateCommonSubexpr"]), caplog.at_level(logging.INFO, "byoc.passes"):
        mod = optimize(network())
    assert mod.astext().count("exp(") == 2
    assert "simplify: EliminateCommonSubexpr is left out: it is disabled" in caplog.messages
    assert "simplify: FastMath is left out: it runs from level 4, and the level is 3" in caplog.messages


def test_each_pass_has_its_time():
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        prepare_host()(optimize(network()))
        assert {"FoldConstant", "FuseOps", "JoinGroups"} <= {name for name, _, _ in timing.profiles}


@pytest.mark.parametrize("field", ["disabled_pass", "required_pass"])
@pytest.mark.parametrize("entry", [byoc.compile, byoc.plan, lambda mod: byoc.export_c(mod, "never")])
def test_a_context_that_names_no_pass_is_refused(field, entry):
    sentence = f"{field} of the PassContext: no pass is called 'FoldConstnat'; the nearest: FoldConstant"
    with pytest.raises(UserError, match=sentence), PassContext(**{field: ["FoldConstnat"]}):
        entry(network())
        pytest.fail("it ran")


@pytest.mark.parametrize("field", ["disabled_pass", "required_pass"])
def test_a_context_refuses_what_names_no_pass_when_it_is_left(field):
    sentence = f"^{field} of the PassContext: no pass is called 'FoldConstnat'; the nearest: FoldConstant"
    with pytest.raises(UserError, match=sentence), PassContext(**{field: ["FoldConstnat"]}):
        relay.transform.FoldConstant()(network())
    assert PassContext.current().disabled_pass == PassContext.current().required_pass == ()


def test_a_context_that_an_error_leaves_says_nothing_of_its_names():
    with pytest.raises(KeyError), PassContext(disabled_pass=["FoldConstnat"]):
        raise KeyError("mine")


def test_a_context_takes_the_name_of_a_pass_that_is_made_inside():
    with PassContext(disabled_pass=["MadeInside"]):
        made = relay.transform.function_pass(
            lambda func, mod, ctx: pytest.fail("it ran"), opt_level=0, name="MadeInside"
        )
        Sequential([made])(network())


def test_contexts_know_the_passes_of_the_pipeline_and_of_relay_transform_before_these_are_made():
    made = [name for name in relay.transform.__all__ if is_maker(name)]
    names = {*made, *(step.name for step in pipeline().steps())}
    code = f"from byoc.ir.passes.transform import PassContext\nwith PassContext(disabled_pass={sorted(names)}): pass"
    subprocess.run([sys.executable, "-c", code], check=True)


def is_maker(name: str) -> bool:
    maker = getattr(relay.transform, name)
    return inspect.isfunction(maker) and str(inspect.signature(maker).return_annotation).endswith("Pass")


@pytest.mark.parametrize("name", ["PassContext", "function_pass", "FoldConstantExpr", "gradient"])
def test_what_is_no_pass_is_not_taken_for_one(name):
    sentence = f"disabled_pass of the PassContext: no pass is called '{name}'; "
    with pytest.raises(UserError, match=sentence), PassContext(disabled_pass=[name]):
        byoc.plan(network())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("FoldConstnat", "no pass is registered as 'FoldConstnat'; the nearest: FoldConstant"),
        (
            "ConvertLayout",
            r"ConvertLayout is not made by its name alone \(.*desired_layouts.*\): give the pass that it makes",
        ),
    ],
)
def test_a_name_that_makes_no_pass_is_not_put_into_the_pipeline(name, sentence):
    with pytest.raises(UserError, match=f"^{sentence}"):
        pipeline().insert_before("FuseOps", name)


def test_names_of_relay_and_of_made_passes_are_known():
    step("OnlyHere")
    with PassContext(disabled_pass=["tir.UnrollLoop", "ManifestLifetimes", "OnlyHere", "SpecializeShapes"]):
        byoc.plan(network())


# passes of a user's -------------------------------------------------------------------------------------------------


def test_a_pass_that_raises_is_reported_with_its_name():
    def fail(mod, ctx):
        raise ValueError("no such thing")

    sentence = "the pass Mine, which stands in stage simplify of the pipeline, raised ValueError: no such thing"
    with pytest.raises(CompileError, match=sentence) as error:
        byoc.compile(network(), pipeline=pipeline().insert_after("FoldConstant", step(run=fail)))
    assert isinstance(error.value.__cause__, ValueError)


def test_a_pass_that_gives_no_module_is_reported_with_its_name():
    with pytest.raises(CompileError, match="the pass Mine, .*raised the module pass Mine must return an IRModule"):
        byoc.plan(network(), pipeline=pipeline().insert_after("FoldConstant", step(run=lambda mod, ctx: None)))


def broken(func, mod, ctx):
    return relay.Function(func.params, relay.nn.relu(relay.var("w", shape=(2, 3))))


def test_a_pass_that_breaks_the_module_is_reported_with_its_name_whoever_verifies(monkeypatch):
    mine = FunctionPass(broken, step("Mine").info)
    for verify in ("0", "1"):
        monkeypatch.setenv("BYOC_VERIFY", verify)
        with pytest.raises(CompileError, match="pass Mine, .* gives a module that is not well formed: %w is used by"):
            byoc.plan(network(), pipeline=pipeline().insert_after("FoldConstant", mine))


def test_a_pass_that_takes_main_away_is_reported_with_its_name():
    mine = ModulePass(lambda mod, ctx: relay.IRModule({}), step("Mine").info)
    with pytest.raises(CompileError, match="pass Mine, .* gives a module without the function main"):
        byoc.compile(network(), pipeline=pipeline().insert_after("FoldConstant", mine))


def test_a_module_that_is_given_broken_is_refused_before_any_pass():
    x = relay.var("x", shape=(2, 3))
    mod = relay.IRModule({"main": relay.Function([x], relay.add(x, relay.var("w", shape=(2, 3))))})
    for entry in (byoc.compile, byoc.plan, lambda given: byoc.export_c(given, "never")):
        with pytest.raises(UserError, match="module that is given is not well formed: %w is used by add in @main"):
            entry(mod)


def test_a_cut_or_an_import_that_breaks_the_module_is_reported(monkeypatch):
    def broken_module(*args, **kwargs):
        x = relay.var("x", shape=(2, 3))
        return relay.IRModule({"main": relay.Function([x], relay.var("w", shape=(2, 3)))})

    with monkeypatch.context() as patched:
        patched.setattr(Plan, "apply", broken_module)
        with pytest.raises(InternalError, match="the cut broke the module: %w is used by @main itself"):
            byoc.compile(network())
    monkeypatch.setattr(module_maker, "import_onnx", broken_module)
    with pytest.raises(InternalError, match="the importer broke the module: %w is used by @main itself"):
        byoc.compile(DIGITS, ["json", "c"])


# the command line and the cache -------------------------------------------------------------------------------------


def test_the_command_line_prints_the_pipeline(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["compile", "--print-pipeline"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"{pipeline()}\n"


@pytest.mark.needs_cc
def test_the_command_line_leaves_passes_out(capsys, tmp_path):
    output = str(tmp_path / "digits.byoc")
    assert main(["compile", DIGITS, "-o", output, "--disable-pass", "ChannelsLast"]) == 0
    assert main(["plan", DIGITS, "--disable-pass", "EliminateCommonSubexpr"]) == 0
    capsys.readouterr()
    assert main(["compile", DIGITS, "-o", output, "--disable-pass", "ChanelsLast"]) == 2
    assert capsys.readouterr().err == (
        "byoc compile: the pipeline has no pass 'ChanelsLast'; the nearest: ChannelsLast\n"
    )


def test_a_library_of_another_pipeline_has_no_place_in_the_cache():
    assert request_text(CompileRequest(DIGITS)) is not None
    assert request_text(CompileRequest(DIGITS, pipeline=pipeline())) is None
