"""The pass manager: contexts, instruments and their order, passes made from functions and classes."""

from __future__ import annotations

import pytest

from byoc import relay
from byoc.errors import InternalError, RegistryError, UserError
from byoc.ir.passes import instrument, transform
from byoc.ir.passes.instrument import PassInstrument, pass_instrument
from byoc.ir.passes.transform import PassContext, PassInfo, Sequential, module_pass
from byoc.relay.transform import InferType, ToANormalForm, function_pass


def model():
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    return relay.IRModule.from_expr(relay.Function([x, y], relay.multiply(relay.add(x, y), y)))


def recorder(name, events, fail_at=None, runs=True):
    @pass_instrument
    class Recorder:
        def _note(self, what):
            events.append(f"{name} {what}")
            if what.startswith(fail_at or "never"):
                raise RuntimeError("on purpose")

        def enter_pass_ctx(self):
            self._note("enter")

        def exit_pass_ctx(self):
            self._note("exit")

        def should_run(self, mod, info):
            self._note(f"should_run {info.name}")
            return runs

        def run_before_pass(self, mod, info):
            self._note(f"before {info.name}")

        def run_after_pass(self, mod, info):
            self._note(f"after {info.name}")

    return Recorder()


# instruments --------------------------------------------------------------------------------------------------------


def test_every_instrument_is_called_at_every_step_in_order():
    events = []
    with PassContext(instruments=[recorder("a", events), recorder("b", events)]):
        InferType()(model())
    assert events == [
        "a enter",
        "b enter",
        "a should_run InferType",
        "b should_run InferType",
        "a before InferType",
        "b before InferType",
        "a after InferType",
        "b after InferType",
        "a exit",
        "b exit",
    ]


def test_all_are_asked_even_where_the_first_says_no():
    events = []
    mod = model()
    with PassContext(instruments=[recorder("a", events, runs=False), recorder("b", events)]):
        assert ToANormalForm()(mod) is mod
    assert events[2:4] == ["a should_run ToANormalForm", "b should_run ToANormalForm"] and len(events) == 6


def test_a_required_pass_runs_whatever_instruments_say():
    events = []
    with PassContext(instruments=[recorder("a", events, runs=False)], required_pass=["ToANormalForm"]):
        assert isinstance(ToANormalForm()(model())["main"].body, relay.Let)
    assert events[1:3] == ["a before ToANormalForm", "a after ToANormalForm"]


def test_an_instrument_that_cannot_enter_leaves_no_context_and_no_instrument():
    events = []
    broken = recorder("b", events, fail_at="enter")
    ctx = PassContext(instruments=[recorder("a", events), broken, recorder("c", events)])
    before = PassContext.current()
    with pytest.raises(RuntimeError, match="on purpose"), ctx:
        raise AssertionError("not reached")
    assert events == ["a enter", "b enter", "a exit"]
    assert PassContext.current() is before and not ctx.instruments


def test_an_instrument_that_cannot_exit_stops_the_others():
    events = []
    ctx = PassContext(instruments=[recorder("a", events, fail_at="exit"), recorder("b", events)])
    with pytest.raises(RuntimeError, match="on purpose"), ctx:
        InferType()(model())
    assert events[-1] == "a exit" and not ctx.instruments
    assert PassContext.current() is not ctx


@pytest.mark.parametrize("where", ["should_run", "before", "after"])
def test_a_failure_while_a_pass_runs_passes_through_and_the_context_is_left(where):
    events = []
    context = PassContext(instruments=[recorder("a", events, fail_at=where), recorder("b", events)])
    with pytest.raises(RuntimeError, match="on purpose"), context:
        InferType()(model())
    assert events[-2:] == ["a exit", "b exit"] and not PassContext.current().instruments


def test_instruments_of_the_default_context_can_be_set_and_taken_away():
    events = []
    current = PassContext.current()
    current.override_instruments([recorder("a", events)])
    try:
        InferType()(model())
    finally:
        current.override_instruments(None)
    assert events[0] == "a enter" and events[-1] == "a exit" and not PassContext.current().instruments
    with pytest.raises(RuntimeError):
        current.override_instruments([recorder("a", events, fail_at="enter")])
    assert not PassContext.current().instruments


def test_nested_contexts_have_their_own_instruments():
    outer, inner = [], []
    with PassContext(instruments=[recorder("o", outer)]):
        with PassContext(instruments=[recorder("i", inner)]):
            InferType()(model())
        ToANormalForm()(model())
    assert [e for e in outer if "before" in e] == ["o before ToANormalForm"]
    assert [e for e in inner if "before" in e] == ["i before InferType"]


def test_what_a_decorated_class_needs_is_given_when_it_is_made():
    @pass_instrument
    class Skip:
        def __init__(self, names, *, why="because"):
            self.names, self.why = names, why

        def should_run(self, mod, info):
            return info.name not in self.names

    skip = Skip(["ToANormalForm"], why="slow")
    assert skip.why == "slow" and skip.name == "Skip" and isinstance(skip, PassInstrument)
    with PassContext(instruments=[skip]):
        assert not isinstance(Sequential([ToANormalForm()])(model())["main"].body, relay.Let)


@pytest.mark.parametrize("bad", [lambda: None, 3])
def test_an_instrument_is_made_of_a_class(bad):
    with pytest.raises(TypeError, match="must be a class"):
        pass_instrument(bad)


def test_times_are_rendered_until_the_context_is_left():
    timing = instrument.PassTimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([InferType(), ToANormalForm()], name="both")(model())
        text = timing.render()
    lines = text.splitlines()
    assert lines[0].startswith("both: ") and lines[1].startswith("\tInferType: ") and "100.00%" in lines[0]
    assert timing.render() == ""


def test_modules_are_printed_before_and_after(capsys):
    with PassContext(instruments=[instrument.PrintBeforeAll(), instrument.PrintAfterAll()]):
        InferType()(model())
    out = capsys.readouterr().out
    assert out.index("Before Running Pass:") < out.index("After Running Pass:") and "pass name: InferType" in out
    with PassContext(instruments=[instrument.PassPrintingInstrument(["InferType"], ["ToANormalForm"])]):
        Sequential([InferType(), ToANormalForm()])(model())
    out = capsys.readouterr().out
    assert "Print IR before: InferType" in out and "Print IR after: ToANormalForm" in out
    assert "Print IR after: InferType" not in out


def test_modules_are_dumped_to_numbered_files(tmp_path):
    (tmp_path / "old.txt").write_text("old")
    with PassContext(instruments=[instrument.DumpIR(tmp_path, refresh=True)]):
        ToANormalForm()(InferType()(model()))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000_InferType.py", "001_ToANormalForm.py"]
    assert "let %x" in (tmp_path / "001_ToANormalForm.py").read_text()


# contexts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["required_pass", "disabled_pass", "instruments"])
def test_lists_are_asked_for(name):
    with pytest.raises(TypeError, match=f"{name} is expected to be the type of list/tuple/set"):
        PassContext(**{name: "InferType"})


def test_unknown_options_are_refused_and_known_ones_listed():
    with pytest.raises(AttributeError, match="Invalid config option 'no.such'"):
        PassContext(config={"no.such": 1})
    assert PassContext.list_configs()["relay.FuseOps.max_depth"] == {"type": "IntImm"}


def test_the_default_context_is_one_for_a_thread():
    assert PassContext.current() is PassContext.current() and PassContext.current().opt_level == 2


def test_levels_disabled_and_required_passes_decide_what_runs():
    ran = []

    def step(name, level):
        return module_pass(lambda mod, ctx: ran.append(name) or mod, opt_level=level, name=name)

    steps = Sequential([step("a", 1), step("b", 3), step("c", 2), step("d", 3)])
    with PassContext(opt_level=2, required_pass=["d"], disabled_pass=["c"]):
        steps(model())
    assert ran == ["a", "d"]


# passes -------------------------------------------------------------------------------------------------------------


def test_a_class_with_transform_function_is_a_class_of_passes():
    @function_pass(opt_level=1)
    class Negate:
        """Negates the result."""

        def __init__(self, times, limit=2):
            self.times = min(times, limit)

        def transform_function(self, func, mod, ctx):
            body = func.body
            for _ in range(self.times):
                body = relay.negative(body)
            return relay.Function(func.params, body)

        def describe(self):
            return f"{self.times} times"

    step = Negate(3, limit=2)
    assert step.info == PassInfo(1, "Negate") and step.describe() == "2 times" and Negate.__name__ == "Negate"
    assert Negate.__doc__ == "Negates the result." and isinstance(step, relay.transform.FunctionPass)
    assert step(model())["main"].body.op.name == "negative"
    with pytest.raises(AttributeError):
        step.no_such_name  # noqa: B018 - the look-up is the test


def test_a_class_with_transform_module_is_a_class_of_passes():
    other = model()

    @module_pass(opt_level=2, name="Swap", required=["InferType"])
    class Replace:
        def __init__(self, new):
            self.new = new

        def transform_module(self, mod, ctx):
            return self.new

    step = Replace(other)
    assert step(model()) is other and step.info.required == ("InferType",) and step.info.name == "Swap"


def test_a_class_without_the_method_is_refused():
    with pytest.raises(UserError, match="Empty has no method transform_module"):
        module_pass(type("Empty", (), {}), opt_level=0)


def test_functions_are_passes_by_call_and_by_decorator():
    def same(func, mod, ctx):
        return func

    assert function_pass(same, opt_level=3, name="Same").info == PassInfo("Same", 3)
    assert function_pass(opt_level=0)(same).info.name == "same"
    assert "same at the optimization level 0" in str(function_pass(opt_level=0)(same))


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="list of Pass objects"):
        Sequential(InferType())
    with pytest.raises(TypeError, match="Required is expected"):
        Sequential([], required="InferType")
    with pytest.raises(TypeError, match="Required is expected"):
        function_pass(opt_level=1, required="InferType")
    with pytest.raises(UserError, match="must return an IRModule, got NoneType"):
        module_pass(lambda mod, ctx: None, opt_level=0, name="nothing")(model())


def test_what_a_pass_requires_runs_before_it():
    events = []
    step = function_pass(lambda func, mod, ctx: func, opt_level=0, name="mine", required=["ToANormalForm"])
    with PassContext(instruments=[recorder("a", events)]):
        mod = Sequential([InferType(), step])(model())
    assert isinstance(mod["main"].body, relay.Let)
    names = [e.split()[-1] for e in events if "before" in e]
    assert names == ["sequential", "InferType", "ToANormalForm", "mine", "InferType"]
    with pytest.raises(RegistryError):
        Sequential([module_pass(lambda m, c: m, opt_level=0, name="x", required=["NoSuchPass"])])(model())


def test_a_pass_that_changes_its_module_is_found_out():
    def change(mod, ctx):
        mod["main"] = relay.Function(mod["main"].params, mod["main"].params[0])
        return mod

    step = module_pass(change, opt_level=0, name="change")
    step(model())
    with PassContext(config={"testing.immutable_module": True}):
        ToANormalForm()(model())
        with pytest.raises(InternalError, match="modified in pass: change"):
            step(model())


def test_print_ir_writes_to_standard_error(capsys):
    mod = model()
    assert Sequential([transform.PrintIR("here")])(mod) is mod
    err = capsys.readouterr().err
    assert "PrintIR(here):" in err and "multiply" in err


def test_a_pass_is_applied_to_the_functions_whose_name_fits():
    mod = model()
    mod["other"] = model()["main"]
    after = transform.ApplyPassToFunction(ToANormalForm(), "ot.*")(mod)
    assert isinstance(after["other"].body, relay.Let) and after["main"] is mod["main"]
    assert transform.ApplyPassToFunction(ToANormalForm(), "ot")(mod) is mod
    with pytest.raises(UserError, match="No function matched regex"):
        transform.ApplyPassToFunction(ToANormalForm(), "ot", error_if_no_function_matches_regex=True)(mod)
