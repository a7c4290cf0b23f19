"""An option that is declared is in the signature, the table, the flags, the checks and the key of what takes it."""

from __future__ import annotations

import argparse
import inspect
import pathlib
import subprocess
import sys
from dataclasses import dataclass, field

import pytest

import byoc
from byoc.driver.options import CompileRequest, ExportRequest, PlanRequest
from byoc.errors import InternalError, OptionError, PartitionError, UserError
from byoc.ir.passes.pass_context import CONFIG_OPTIONS
from byoc.options.declaration import (
    Flag,
    Keyed,
    Options,
    configuration,
    configures,
    described,
    has_type,
    key_text,
    like,
    option,
    options_of,
    part_of,
)
from byoc.options.entry import table, takes
from byoc.options.flags import add_flags, given_flags, given_options
from byoc.partition import make_plan
from byoc.relay.transform.cut.compiler_functions import KEEP_UNCONVERTED

ROOT = pathlib.Path(__file__).parents[2]


@dataclass(frozen=True)
class _Subject(Options):
    model: str = field(metadata=described("what to brew"))
    cups: int = option(1, "how many", least=1, flag=Flag("--cups", short="-c"))


@dataclass(frozen=True, kw_only=True)
class Brewing(_Subject):
    """What ``brew`` takes."""

    roast: str = option(
        "dark", "how it is roasted, 100% arabica", choices=("dark", "light"), flag=Flag("--roast"), error=PartitionError
    )
    decaf: bool = option(False, "without caffeine", flag=Flag("--decaf", commands=("brew",)))
    extras: list[str] | tuple[str, ...] = option((), "what goes in", flag=Flag("--extra", many=True, read=sorted))
    hot: bool = option(True, "not cold", flag=Flag("--hot", commands=("brew",)))
    machine: object = option("any", "what brews", key=Keyed.DEFAULT)
    tell: object = option(None, "called with each step", key=Keyed.APART)

    __test__ = False


def test_an_option_names_the_configuration_that_it_sets_unless_it_has_its_default() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Filtered(Options):
        holes: int = configures("filter.holes", option(3, "how many holes", least=1))
        brand: str = option("any", "whose it is")

    assert configuration(Filtered()) == {}
    assert configuration(Filtered(holes=1, brand="own")) == {"filter.holes": 1}
    with pytest.raises(UserError, match="holes is a number from 1 on"):
        Filtered(holes=0)


@pytest.mark.parametrize("kind", [CompileRequest, ExportRequest, PlanRequest])
def test_what_options_configure_is_read_by_a_pass(kind: type[Options]) -> None:
    configured = {d.about.config: d.type for d in options_of(kind) if d.about.config}
    assert {name: CONFIG_OPTIONS[name].__name__ for name in configured} == configured


def test_fallback_configures_the_cut() -> None:
    assert configuration(CompileRequest(b"", fallback=True)) == {KEEP_UNCONVERTED: True}


@takes(Brewing, "brew")
def brew(asked: Brewing) -> Brewing:
    """Brew coffee."""
    return asked


def test_the_signature_is_that_of_the_declarations():
    parameters = inspect.signature(brew).parameters
    assert list(parameters) == ["model", "cups", "roast", "decaf", "extras", "hot", "machine", "tell"]
    assert [p.kind.name for p in parameters.values()] == ["POSITIONAL_OR_KEYWORD"] * 2 + ["KEYWORD_ONLY"] * 6
    assert parameters["roast"].default == "dark" and parameters["roast"].annotation == "str"
    assert parameters["model"].default is inspect.Parameter.empty
    assert inspect.signature(brew).return_annotation == "Brewing" == brew.__annotations__["return"]
    assert brew("mocha", 2, roast="light") == Brewing("mocha", 2, roast="light")


def test_the_docstring_ends_in_a_table_of_the_options():
    assert brew.__doc__.startswith("Brew coffee.\n\nOptions:\n\n") and table(Brewing) in brew.__doc__
    rows = table(Brewing).splitlines()
    assert rows[1].split() == ["option", "type", "default", "range", "meaning"]
    text = "\n".join(" ".join(row.split()) for row in rows)
    assert "model str required what to brew" in text and "cups int 1 from 1 on how many" in text
    assert "roast str 'dark' dark, light how it is roasted, 100% arabica" in text
    edges = [len(part) for part in rows[0].split("  ")]
    assert rows[0] == rows[2] == rows[-1] and all(len(row) <= len(rows[0]) for row in rows)
    assert {row[edges[0] : edges[0] + 2] for row in rows} == {"  "}, "columns stand below each other"


@pytest.mark.parametrize(
    "values, kind, message",
    [
        ({"roast": "ligth"}, PartitionError, "^roast is one of dark, light, got 'ligth'; the nearest: light$"),
        ({"roast": None}, PartitionError, "^roast is one of dark, light, got None$"),
        ({"cups": 0}, UserError, "^cups is a number from 1 on, got 0$"),
        ({"cups": "2"}, UserError, "^cups is a number from 1 on, got '2'$"),
        ({"cups": float("nan")}, UserError, "^cups is a number from 1 on, got nan$"),
        ({"decaf": "no"}, UserError, "^decaf is True or False, got 'no'$"),
        ({"decaf": None}, UserError, "^decaf is True or False, got None$"),
        ({"extras": 3}, UserError, r"^extras is list\[str\] \| tuple\[str, ...\], got 3, a value of type int$"),
        ({"extras": None}, UserError, r"^extras is list\[str\] \| tuple\[str, ...\], got None, a value of type NoneT"),
        ({"rost": "dark"}, OptionError, "^brew has no option 'rost': the nearest is 'roast'$"),
        ({"xyz": 1}, OptionError, "^brew has no option 'xyz': it takes model, cups, roast, decaf, extras, hot, ma"),
    ],
)
def test_what_an_option_cannot_be_is_one_sentence(values, kind, message):
    with pytest.raises(kind, match=message):
        brew("mocha", **values)


def test_a_call_with_too_few_or_too_many_arguments_is_a_type_error_and_a_mistake_of_the_user():
    with pytest.raises(TypeError, match="^brew: missing a required argument: 'model'; it takes model, cups") as error:
        brew()
    assert isinstance(error.value, UserError)
    with pytest.raises(OptionError, match="^brew: too many positional arguments; it takes model, cups"):
        brew("mocha", 1, "dark")
    with pytest.raises(OptionError, match="^brew: multiple values for argument 'cups'"):
        brew("mocha", 1, cups=2)


def parsed(*words, name="brew"):
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_flags(parser, name, Brewing)
    return parser.parse_args(words, argparse.Namespace(command=name))


def test_flags_give_what_is_written_and_nothing_else():
    assert given_options(parsed(), Brewing) == {} == given_options(parsed(name="run"), Brewing)
    arguments = parsed("-c", "3", "--decaf", "--extra", "sugar", "--extra", "milk", "--roast", "light")
    assert given_options(arguments, Brewing) == {
        "cups": 3, "decaf": True, "extras": ["milk", "sugar"], "roast": "light",
    }  # fmt: skip
    assert given_flags(arguments, Brewing) == ["--cups", "--roast", "--decaf", "--extra"]
    assert given_options(parsed("--no-hot"), Brewing) == {"hot": False}
    assert not hasattr(parsed(name="run"), "decaf"), "a flag of one command is no other's"
    with pytest.raises(argparse.ArgumentError, match="roast is one of dark, light, got 'drak'; the nearest: dark"):
        parsed("--roast", "drak")


def test_help_says_the_sentence_and_the_default():
    parser = argparse.ArgumentParser()
    add_flags(parser, "brew", Brewing)
    shown = " ".join(parser.format_help().split())
    assert "--roast {dark,light} how it is roasted, 100% arabica (default: dark)" in shown
    cups = "-c CUPS, --cups CUPS" if sys.version_info < (3, 13) else "-c, --cups CUPS"
    assert f"{cups} how many (default: 1)" in shown and "--decaf without caffeine --extra" in shown


def test_the_key_says_what_was_declared():
    keys = [Brewing("m"), Brewing("m", cups=2), Brewing("m", decaf=True), Brewing("m", extras=["milk"])]
    assert len({key_text(k) for k in keys}) == 4 and None not in map(key_text, keys)
    assert key_text(Brewing("other", tell=print)) == key_text(Brewing("m")), "these stand apart"
    assert key_text(Brewing("m", machine="mine")) is None and key_text(Brewing("m", extras=[object()])) is None


def test_an_option_is_declared_again_for_another_place():
    @dataclass(frozen=True)
    class Other(Options):
        roast: str = like(Brewing, "roast", "light", choices=("light", "mild"))

    (declared,) = options_of(Other)
    assert declared.about.sentence == "how it is roasted, 100% arabica" and Other("mild").roast == "mild"
    assert part_of(Brewing("m"), Other) == {"roast": "dark"}
    with pytest.raises(PartitionError, match="roast is one of light, mild, got 'dark'"):
        Other("dark")


def test_a_field_that_nobody_declared_is_reported():
    @dataclass(frozen=True)
    class Other(Options):
        roast: str = "dark"

    with pytest.raises(InternalError, match=r"^Other: the field roast is no option; make it by option\(\.\.\.\)$"):
        Other()


@pytest.mark.parametrize("function", [byoc.compile, byoc.plan, byoc.export_c, make_plan])
def test_the_functions_of_options_are_documented_by_their_tables(function):
    rows = [line.split("  ")[0] for line in function.__doc__.split("Options:")[1].splitlines()]
    assert [name for name in inspect.signature(function).parameters if name not in rows] == []
    assert function.__annotations__.keys() == {*inspect.signature(function).parameters, "return"}


def test_a_misspelt_option_of_compile_is_reported_with_the_nearest():
    with pytest.raises(OptionError, match="^byoc.compile has no option 'precison': the nearest is 'precision'$"):
        byoc.compile(b"", precison="bf16")
    with pytest.raises(UserError, match="^fallback is True or False, got 'no'$"):
        byoc.compile(b"", fallback="no")


def test_a_type_is_a_union_of_classes_that_are_known_by_their_names():
    class Machine:
        pass

    class Espresso(Machine):
        pass

    assert has_type(Espresso(), "str | Machine | None") and has_type(None, "str | Machine | None")
    assert not has_type(object(), "str | Machine | None") and has_type(object(), "object")
    assert has_type(pathlib.Path("."), "str | os.PathLike[str]") and not has_type(b".", "str | os.PathLike[str]")
    assert has_type(print, "Callable[[str], None] | None") and not has_type("print", "Callable[[str], None] | None")
    assert has_type({}, "Mapping[str, Sequence[int | str]] | None") and not has_type(["a"], "Mapping[str, int]")
    assert has_type({"a"}, "Sequence[str]") and not has_type(True, "Sequence[str]") and has_type(2, "float")


OF_ANY_TYPE = {"costs"}  # distinguished where costs are made
STRANGER = type("Stranger", (), {})()


@pytest.mark.parametrize(("function", "asked"), [(byoc.compile, CompileRequest), (byoc.export_c, ExportRequest)])
def test_no_option_takes_an_object_that_nobody_knows(function, asked):
    checked = [d for d in options_of(asked) if not d.is_required and d.name not in OF_ANY_TYPE]
    assert len(checked) > 10
    for declared in checked:
        if declared.type != "bool":  # whose truth is asked
            with pytest.raises(UserError, match=f"^{declared.name} is "):
                function(b"", *(["out"] if function is byoc.export_c else []), **{declared.name: STRANGER})


# the declaration of an option, put into the file of options while a new process loads it, and into nothing else
ONE_FILE = """
import importlib.machinery, inspect, sys
LINE = (
    "    colour: str = finishes(\\n"
    "        lambda library, colour: library.report.update(colour=colour),\\n"
    "        option('', 'a colour for the report', choices=('red', 'green'), flag=Flag('--colour')),\\n"
    "    )\\n"
)

class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, name):
        text = self.get_source(name)
        place = "What ``byoc.compile`` is asked for." + 3 * chr(34) + "\\n"
        assert text.count(place) == 1
        return compile(text.replace(place, place + LINE), self.path, "exec", dont_inherit=True)

class Finder:
    def find_spec(self, name, path, target=None):
        if name != "byoc.driver.options":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = Loader(name, spec.origin)
        return spec

sys.meta_path.insert(0, Finder())
import byoc
from byoc.cli.main import parser
from byoc.driver.library_key import request_text
from byoc.driver.options import CompileRequest

assert inspect.signature(byoc.compile).parameters["colour"].default == ""
row = next(line for line in byoc.compile.__doc__.splitlines() if line.startswith("colour"))
assert row.split() == "colour str '' red, green a colour for the report".split()
texts = {request_text(CompileRequest("m.onnx", colour=colour)) for colour in ("", "red", "green")}
assert len(texts) == 3 and None not in texts
try:
    byoc.compile("m.onnx", colour="gren")
except byoc.errors.UserError as error:
    said = str(error)
assert said == "colour is one of red, green, got 'gren'; the nearest: green"
assert parser(["compile"]).parse_args(["compile", "m.onnx", "--colour", "red"]).colour == "red"
model, *commands = sys.argv[1:]
assert byoc.compile(model, colour="red").report["colour"] == "red" and "colour" not in byoc.compile(model).report
for command in commands:
    try:
        parser([command]).parse_args([command, "--help"])
    except SystemExit:
        pass
"""


@pytest.mark.needs_cc
def test_a_new_option_of_compile_that_acts_on_the_library_is_one_file():
    model = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
    command = [sys.executable, "-c", ONE_FILE, str(model), "compile", "run", "tune"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert " ".join(done.stdout.split()).count("--colour {red,green} a colour for the report") == 3


CALLS = """
from byoc.options.entry import takes
from byoc.driver.options import CompileRequest

@takes(CompileRequest, "compile")
def compile(asked: CompileRequest) -> int:
    return 0

reveal_type(compile("m.onnx", ["c"], precision="bf16", replan=True))
compile("m.onnx", precison="bf16")
compile("m.onnx", fallback="no")
compile()
"""


def test_type_checkers_know_the_options(tmp_path):
    """As mypy sees the declarations alone; what else they import is taken to be of any type."""
    package = tmp_path / "byoc"
    for name in ("options", "errors.py", "driver/options.py", "partition/options.py"):
        place = package / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(ROOT / "byoc" / name)
    (tmp_path / "calls.py").write_text(CALLS)
    for folder in (package, package / "driver", package / "partition"):
        (folder / "__init__.py").write_text("")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--ignore-missing-imports",
        "--no-site-packages",
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    done = subprocess.run([*command, "calls.py"], cwd=tmp_path, capture_output=True, text=True)
    shown = [line.split(": ", 1)[1] for line in done.stdout.splitlines() if line.startswith("calls.py")]
    assert shown == [
        'note: Revealed type is "int"',
        'error: Unexpected keyword argument "precison" for "compile"; did you mean "precision"?  [call-arg]',
        'error: Argument "fallback" to "compile" has incompatible type "str"; expected "bool"  [arg-type]',
        'error: Missing positional argument "model" in call to "compile"  [call-arg]',
    ], done.stdout


def test_an_option_of_another_function_says_whose_it_is():
    with pytest.raises(
        OptionError, match=r"byoc.compile has no option 'valid_places': it is one of byoc.plan, and what"
    ):
        byoc.compile("x.onnx", valid_places=["opencl/float/any"])
    with pytest.raises(OptionError, match=r"byoc.plan has no option 'region_timeout': it is one of byoc.compile$"):
        byoc.plan("x.onnx", region_timeout=1)
