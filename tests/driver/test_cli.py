"""The command line as a user meets it: what each command prints, writes and returns."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest

import byoc
from byoc.cli import compile_command
from byoc.cli import main as entry
from byoc.cli.main import main
from byoc.cli.report.library_notes import notes_of

ROOT = pathlib.Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
pytestmark = pytest.mark.needs_cc


@pytest.fixture(autouse=True)
def no_tracebacks(monkeypatch):
    monkeypatch.delenv("BYOC_DEBUG", raising=False)


def run(capsys, *argv):
    """Exit code, standard output, standard error."""
    code = main([str(a) for a in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_compile_writes_the_artifact_and_prints_the_plan(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "compile", DIGITS, "-t", "json,c", "--exclude", "nn.softmax")
    assert (code, err) == (0, "")
    assert "targets json: 1 regions" in out
    assert "nn.softmax" in out
    size = (tmp_path / "digits.byoc").stat().st_size
    assert f"wrote digits.byoc ({size:,} bytes) in " in out
    assert [p.name for p in tmp_path.iterdir()] == ["digits.byoc"]


def test_compile_hands_the_generators_options_on(capsys, tmp_path):
    image = np.random.default_rng(0).random((1, 1, 8, 8), "float32")

    def outputs(*options):
        shape = ["--shape", "image=1,1,8,8"]
        code, _, err = run(capsys, "compile", DIGITS, "-o", tmp_path / "m.byoc", *shape, *options)
        assert (code, err) == (0, "")
        return byoc.load(tmp_path / "m.byoc").run({"image": image})[0]

    term_by_term, tiled = outputs("--strict"), outputs("--winograd", "f4")
    assert (term_by_term != tiled).any()
    np.testing.assert_array_equal(term_by_term, outputs("--winograd", "off"))
    np.testing.assert_array_equal(term_by_term, outputs("--winograd-max-error", "1e-9"))
    code, _, err = run(capsys, "compile", DIGITS, "-o", tmp_path / "m.byoc", "--winograd-max-error", "-1")
    assert code == 2 and "option 'max_error' of backend c is a number from 0 on, got -1.0" in err
    code, _, err = run(capsys, "run", tmp_path / "m.byoc", "--random", "--strict")
    assert code == 2 and "--strict is for ONNX models" in err
    code, _, err = run(capsys, "run", tmp_path / "m.byoc", "--random", "--precision", "f32")
    assert code == 2 and "--precision is for ONNX models" in err


def test_compile_places_as_plan_does(capsys, tmp_path):
    output = tmp_path / "m.byoc"
    placed = ("--policy", "cost", "--costs", "typical", "--force", "json=nn.softmax")
    code, out, err = run(capsys, "compile", DIGITS, "-t", "json,c", *placed, "-o", output)
    assert (code, err) == (0, "") and "Plan: policy cost" in out
    plan = byoc.runtime.load(output).report["plan"]
    assert [d["target"] for d in plan["decisions"] if d["operator"] == "nn.softmax"] == ["json"]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    code, _, err = run(capsys, "compile", DIGITS, "--plan", file, "--policy", "cost", "-o", output)
    assert code == 2 and "says where operators go already; leave out --policy" in err


def test_compile_excludes_where_the_command_line_says_how_a_plan_is_made(capsys, tmp_path):
    output = tmp_path / "m.byoc"
    placed = ("--exclude", "nn.softmax", "--policy", "cost", "--costs", "typical")
    code, out, err = run(capsys, "compile", DIGITS, "-t", "json,c", *placed, "-o", output)
    assert (code, err) == (0, "") and "Plan: policy cost" in out
    decisions = byoc.runtime.load(output).report["plan"]["decisions"]
    assert [d["target"] for d in decisions if d["operator"] == "nn.softmax"] == [None]


def test_compile_with_json_prints_one_object_with_the_plan(capsys, tmp_path):
    code, out, err = run(capsys, "compile", DIGITS, "-t", "json", "-t", "c", "-o", tmp_path / "m.byoc", "--json")
    data = json.loads(out)
    assert (code, err) == (0, "")
    assert data["output"] == str(tmp_path / "m.byoc")
    assert data["bytes"] == (tmp_path / "m.byoc").stat().st_size
    assert data["plan"]["targets"] == ["json"]


def test_compile_fixes_a_free_dimension(capsys, tmp_path):
    code, _, _ = run(capsys, "compile", DIGITS, "-o", tmp_path / "m.byoc", "--shape", "image=5,1,8,8")
    assert code == 0
    assert byoc.runtime.load(tmp_path / "m.byoc").inputs[0].shape == (5, 1, 8, 8)


def test_compile_says_which_host_functions_run_on_numpy_kernels():
    assert notes_of({"host_fallbacks": {}}) == ""
    text = notes_of({"host_fallbacks": {"f": "nn.sort has no tensor expression"}})
    assert text.splitlines()[1:] == [
        "host functions on numpy kernels, for which no code is generated:",
        "  f: nn.sort has no tensor expression",
    ]


def test_what_parts_of_a_model_with_control_flow_leave_to_numpy_kernels_stands_under_them(capsys, tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N] x) => (int64[K] y) {
  places = NonZero(x)
  minus = Constant<value = int64[1] {-1}>()
  flat = Reshape(places, minus)
  y = Unique<sorted = 1>(flat)
}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    _, made, _ = run(capsys, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.byoc")
    _, seen, _ = run(capsys, "inspect", tmp_path / "m.byoc")
    for out in (made, seen):
        part = out[out.index("runs on the virtual machine") :]
        assert "\n    host functions on numpy kernels, for which no code is generated:\n" in part
        assert "unique has no tensor expression" in part


def test_compile_says_why_a_model_runs_node_by_node():
    reason = "the shapes of argwhere are known only after it ran"
    text = notes_of({"host_fallbacks": {}, "node_by_node": reason})
    assert text.splitlines()[1:] == [f"the model runs node by node, not by one native call: {reason}"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["-t", "nosuch"],
            "no backend is called 'nosuch'; known: blas, c, int8_npu, json, ",
        ),
        (["-t", "json", "-t", "json"], "a target is named twice in json, json"),
        (["-t", "json,,c"], "a name is empty"),
        (["--time-limit", "-1"], "time_limit is a number from 0 on, got -1.0"),
        (["-t", "host,json"], '"host" must be the last target'),
        (["-t", "json", "--exclude", "nn.conv2"], "is called 'nn.conv2'; the nearest: nn.conv2d"),
        (["--shape", "image"], "--shape 'image': expected INPUT=1,3,224,224"),
        (["--shape", "image=1,-1,8,8"], "'-1' is neither a number nor the name of a free dimension"),
        (["--shape", "nope=1,1,8,8"], "shapes= names 'nope', which is not an input"),
        (["--shape", "image=1,1,8"], "input 'image' has 4 dimensions, shapes= gives 3"),
    ],
)
def test_a_mistake_in_an_option_is_one_sentence_and_exit_code_2(capsys, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "compile", DIGITS, *options)
    assert (code, out) == (2, "")
    assert err.startswith("byoc compile: ") and message in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_error_with_json_is_an_object_with_the_exit_code(capsys, tmp_path):
    code, out, err = run(capsys, "compile", tmp_path / "none.onnx", "-o", tmp_path / "m.byoc", "--json")
    data = json.loads(out)
    assert (code, data["exit_code"], data["kind"]) == (2, 2, "ImportModelError")
    assert data["error"] in err and "none.onnx: there is no such file" in data["error"]


@pytest.mark.parametrize(
    ("output", "message"),
    [("", "this is a folder"), ("no/m.byoc", "does not exist; make it first"), ("digits.onnx", "this is the model")],
)
def test_a_place_where_no_artifact_can_be_written_is_refused_before_any_work(
    capsys, tmp_path, monkeypatch, output, message
):
    model = tmp_path / "digits.onnx"
    model.write_bytes(DIGITS.read_bytes())
    monkeypatch.setattr(compile_command, "compile_model", lambda *a, **k: pytest.fail("compiled"))
    code, _, err = run(capsys, "compile", model, "-o", f"{tmp_path}/{output}")
    assert code == 2 and message in err
    assert model.read_bytes() == DIGITS.read_bytes()


def test_run_gives_the_outputs_of_the_library(capsys, artifact, tmp_path):
    images = np.load(ROOT / "examples" / "digits" / "unseen.npz")["images"][:4].astype("float32")
    np.save(tmp_path / "x.npy", images)
    for given in (f"image={tmp_path}/x.npy", f"{tmp_path}/x.npy"):
        code, out, err = run(capsys, "run", artifact, "-i", given, "-o", tmp_path / "y.npz", "--repeat", "3")
        assert (code, err) == (0, "")
        assert "probabilities: float32[4, 10]" in out and "median of 3" in out
        np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["probabilities"], byoc.runtime.load(artifact)(images))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npy", "y.npz"]


def test_run_with_random_inputs_is_seeded_and_describes_the_numbers(capsys, artifact):
    answers = [json.loads(run(capsys, "run", artifact, "--random", "--size", "batch=3", "--json")[1]) for _ in range(2)]
    assert answers[0]["outputs"] == answers[1]["outputs"]
    (row,) = answers[0]["outputs"]
    assert (row["shape"], row["dtype"], row["not_finite"]) == ([3, 10], "float32", 0)
    assert row["mean"] == pytest.approx(0.1, abs=1e-6)
    assert 0 <= row["min"] <= row["mean"] <= row["max"] <= 1


def test_run_gives_the_same_on_any_number_of_threads(capsys, artifact):
    answers = [json.loads(run(capsys, "run", artifact, "--random", "--threads", n, "--json")[1]) for n in (1, 2, 3)]
    assert answers[0]["outputs"] == answers[1]["outputs"] == answers[2]["outputs"]


def test_run_takes_a_model_and_compiles_it_first(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "run", DIGITS, "--random", "-t", "json,c")
    assert code == 0 and out.startswith("probabilities: float32[1, 10]")
    assert list(tmp_path.iterdir()) == []


def test_run_does_not_invent_numbers_for_outputs_without_any():
    from byoc.cli.run_command import describe

    assert describe("y", np.array([1.0, np.nan, np.inf]))["max"] == 1.0
    assert describe("y", np.array([1.0, np.nan, np.inf]))["not_finite"] == 2
    assert describe("y", np.empty((0, 3)))["min"] is None
    assert describe("y", np.array(["a"], object))["mean"] is None


def saved(folder, name, array):
    np.save(folder / name, array)
    return folder / name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "missing input image: float32[batch, 1, 8, 8]; give --input image=FILE.npy, or --random"),
        (["-i", "nope={x}"], "the model has no input 'nope'; its inputs are image"),
        (["-i", "image={x}", "-i", "image={x}"], "the input 'image' is given twice"),
        (["-i", "image={short}"], "input 'image': expected shape [batch, 1, 8, 8] with batch=2, got [2, 64]"),
        (["-i", "image={double}"], "input 'image': expected dtype float32, got float64; convert it with .astype"),
        (["-i", "image={text}"], "cannot be read as a .npy file"),
        (["-i", "image=none.npy"], "none.npy cannot be read as a .npy file"),
        (["-i", "image={many}"], "holds several arrays"),
        (["--random", "--size", "batch"], "--size 'batch': expected NAME=NUMBER"),
        (["--random", "--size", "n=3"], "the free dimensions of the inputs are batch"),
        (["--random", "--size", f"batch={10**30}"], "is more than"),
        (["--random", "--repeat", "0"], "--repeat is at least 1, got 0"),
        (["--random", "--threads", "0"], "--threads is a whole number from 1, or several as in 1,2, got '0'"),
        (["--random", "-t", "c"], "--target is for ONNX models"),
        (["--random", "-o", "{tmp}/no/y.npz"], "the folder cannot be written"),
    ],
)
def test_a_mistake_in_what_run_is_given_is_one_sentence_and_exit_code_2(capsys, artifact, tmp_path, options, message):
    places = {
        "x": saved(tmp_path, "x.npy", np.zeros((2, 1, 8, 8), "float32")),
        "short": saved(tmp_path, "short.npy", np.zeros((2, 64), "float32")),
        "double": saved(tmp_path, "double.npy", np.zeros((2, 1, 8, 8))),
        "text": tmp_path / "text.npy",
        "many": tmp_path / "many.npz",
        "tmp": tmp_path,
    }
    places["text"].write_text("not an array")
    np.savez(places["many"], a=np.zeros(1), b=np.zeros(1))
    code, out, err = run(capsys, "run", artifact, *(option.format(**places) for option in options))
    assert (code, out) == (2, "")
    assert err.startswith("byoc run: ") and message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            ["export-c", DIGITS, "{file}/out", "--shape", "image=1,1,8,8"],
            "is a file, in which no folder can be; choose",
        ),
        (["export-c", DIGITS, "/proc/x", "--shape", "image=1,1,8,8"], "/proc"),
        (["plan", DIGITS, "-o", "{file}/x.json"], "/x.json: the folder cannot be written (Not a directory)"),
        (["plan", DIGITS, "-o", "{file}/x.html"], "/x.html: the folder cannot be written (Not a directory)"),
        (["partition", DIGITS, "-o", "{file}/x.onnx"], "x.onnx: the folder"),
        (["tune", "--export", "{file}/x.jsonl"], "/x.jsonl: the folder cannot be written (Not a directory)"),
    ],
)
def test_a_place_that_cannot_be_written_is_one_sentence_and_exit_code_2(capsys, tmp_path, command, sentence):
    (tmp_path / "file").write_bytes(b"")
    code, out, err = run(capsys, *(str(word).format(file=tmp_path / "file") for word in command))
    assert (code, out) == (2, "") and sentence in err
    assert len(err.splitlines()) == 1


def test_a_cache_folder_that_cannot_be_written_is_a_warning(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "file"))
    code, out, err = run(capsys, "compile", DIGITS, "-o", tmp_path / "digits.byoc")
    assert (code, len(err.splitlines())) == (0, 1) and "wrote" in out
    assert err.startswith(f"byoc compile: warning: {tmp_path}/file/c: the cache folder cannot be written (Not a dir")
    assert err.endswith("name another with BYOC_CACHE_DIR\n")
    assert run(capsys, "doctor")[0] == 0


def test_objects_in_a_npy_file_are_not_unpickled(capsys, artifact, tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], object), allow_pickle=True)
    code, _, err = run(capsys, "run", artifact, "-i", tmp_path / "x.npy")
    assert code == 2 and "cannot be read as a .npy file" in err


def test_targets_lists_what_is_ready_and_what_is_broken(capsys, monkeypatch):
    from byoc import contract as backend
    from byoc.cli import targets_command

    class Bad(backend.Backend):
        name = "test_bad"

        def unavailable(self):
            raise OSError("libacme.so is missing")

    monkeypatch.setattr(targets_command, "backend_names", lambda: ["c", "test_bad"])
    known = backend.get_backend("c")
    monkeypatch.setattr(targets_command, "get_backend", lambda name: {"c": known, "test_bad": Bad()}[name])
    code, out, _ = run(capsys, "targets")
    assert code == 0
    assert out.splitlines()[0].startswith("c         ready        Generated C.")
    problem = "backend 'test_bad': its unavailable() failed: OSError: libacme.so is missing (test_cli.py:"
    assert out.splitlines()[1].startswith(f"test_bad  broken       {problem}")
    assert [t["state"] for t in json.loads(run(capsys, "targets", "--json")[1])["targets"]] == ["ready", "broken"]


def test_doctor_finds_what_the_host_needs(capsys):
    code, out, _ = run(capsys, "doctor")
    assert code == 0 and "C compiler" in out and "NO" not in out.split()
    assert json.loads(run(capsys, "doctor", "--json")[1])["able"] is True


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"CC": "nonexistent-clang"}, "$CC is 'nonexistent-clang', which does not work as a C compiler"),
        ({"CC": "", "PATH": "/nonexistent"}, "no C compiler was found ($CC, cc, gcc, clang, or zig"),
    ],
)
def test_without_a_compiler_doctor_and_compile_say_so_and_return_3(
    capsys, monkeypatch, tmp_path, environment, sentence
):
    from byoc.codegen.c.toolchain import compiler

    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: None)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    code, out, _ = run(capsys, "doctor")
    assert code == 3 and sentence in out and "NO: the host cannot compile without it" in out
    code, _, err = run(capsys, "compile", DIGITS, "-o", tmp_path / "m.byoc")
    assert code == 3 and sentence in err
    assert list(tmp_path.iterdir()) == []


def explode(error):
    def command(arguments):
        raise error

    return command


def test_an_unexpected_error_is_one_sentence_that_says_how_to_see_more(capsys, monkeypatch):
    monkeypatch.delenv("BYOC_DEBUG", raising=False)
    monkeypatch.setattr(entry.command_module("targets"), "run", explode(TypeError("two\nlines")))
    code, _, err = run(capsys, "targets")
    assert code == 1 and len(err.splitlines()) == 1
    assert "internal error: TypeError: two lines" in err and "BYOC_DEBUG=1 shows where" in err
    monkeypatch.setenv("BYOC_DEBUG", "1")
    code, _, err = run(capsys, "targets")
    assert code == 1 and "Traceback (most recent call last)" in err and "in command" in err


def test_too_little_memory_is_something_that_the_machine_lacks(capsys, monkeypatch):
    monkeypatch.setattr(entry.command_module("targets"), "run", explode(MemoryError("Unable to allocate 9 TiB")))
    code, _, err = run(capsys, "targets")
    assert code == 3 and "this process has too little memory (Unable to allocate 9 TiB)" in err


def test_an_interrupt_leaves_nothing_half_written(capsys, monkeypatch, tmp_path):
    from byoc.runtime.files import whole_file

    def interrupt(source, target, **options):
        raise KeyboardInterrupt

    for way_to_name_a_file in ("link", "replace"):
        monkeypatch.setattr(whole_file.os, way_to_name_a_file, interrupt)
    code, _, err = run(capsys, "compile", DIGITS, "-t", "json,c", "-o", tmp_path / "m.byoc")
    assert code == 130 and "interrupted; nothing was written" in err
    assert list(tmp_path.iterdir()) == []


def test_the_installed_command_returns_its_exit_code_and_survives_a_closed_pipe(artifact):
    argv = ["inspect", str(artifact), "--json"]
    command = f"from byoc.cli.main import main; import sys; sys.exit(main({argv!r}))"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", command], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
    script = pathlib.Path(sys.executable).parent / "byoc"
    done = subprocess.run([script, "run", "none.byoc"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "byoc run: none.byoc: there is no such file\n"


def test_wrong_usage_is_exit_code_2_and_help_names_the_codes(capsys):
    for argv in ([], ["nonsense"], ["compile"], ["run", "x", "--reapet", "3"]):
        with pytest.raises(SystemExit) as caught:
            main(argv)
        assert caught.value.code == 2
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "exit codes: 0 done, 1 internal error, 2 a mistake" in " ".join(capsys.readouterr().out.split())


def test_run_reports_its_times_for_each_number_of_threads(capsys, artifact):
    words = ("run", artifact, "--random", "--repeat", "5", "--warmup", "2", "--threads", "1,2", "--json")
    code, out, err = run(capsys, *words)
    assert (code, err) == (0, "")
    reported = json.loads(out)
    assert [s["threads"] for s in reported["settings"]] == [1, 2]
    for found in (reported, *reported["settings"]):
        assert (found["runs"], found["warmup"]) == (5, 2)
        assert 0 < found["min_ms"] <= found["median_ms"] <= found["p90_ms"] <= found["max_ms"]
        assert found["stdev_ms"] >= 0 and found["first_ms"] > 0 and found["open_ms"] > 0
    assert all(s["difference"] < 1e-6 for s in reported["settings"])
    code, out, _ = run(capsys, *words[:-1])
    rows = [line.split() for line in out.splitlines()]
    assert rows[1] == ["threads", "device", "load", "first", "min", "median", "max", "p90", "stdev", "differs"]
    assert [row[0] for row in rows[2:4]] == ["1", "2"] and "5 runs after the first and 2 more" in out


@pytest.mark.needs_opencl
def test_run_goes_over_devices_too(capsys):
    code, out, err = run(
        capsys, "run", DIGITS, "--random", "-t", "opencl", "--devices", "0,0", "--threads", "1,2", "--json"
    )
    assert code == 0, err
    settings = json.loads(out)["settings"]
    assert [(s["device"], s["threads"]) for s in settings] == [("0", 1), ("0", 2), ("0", 1), ("0", 2)]
    assert all(s["difference"] < 1e-6 for s in settings)
    code, _, err = run(capsys, "run", DIGITS, "--random", "-t", "opencl", "--devices", "0,no such")
    assert code == 3 and "opencl.device='no such' names no OpenCL device" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--threads", "0"), "--threads is a whole number from 1, or several as in 1,2, got '0'"),
        (("--threads", "1,,2"), "got ''"),
        (("--threads", "two"), "got 'two'"),
        (("--warmup", "-1"), "--warmup is at least 0, got -1"),
        (("--devices", ","), "a name of a device is empty"),
    ],
)
def test_mistakes_in_what_is_measured_are_one_sentence(capsys, artifact, words, message):
    code, out, err = run(capsys, "run", artifact, "--random", *words)
    assert (code, out) == (2, "") and message in err and len(err.splitlines()) == 1


def test_the_difference_of_two_runs_counts_numbers_and_shapes():
    from byoc.cli.report.run_times import largest_difference

    one = [np.array([1.0, np.nan]), np.array(["a"])]
    assert largest_difference(one, one) == 0
    assert largest_difference(one, [np.array([3.0, np.nan]), np.array(["b"])]) == 2
    assert (
        largest_difference([np.zeros(3)], [np.zeros(4)]) == np.inf
        and largest_difference([np.zeros(0)] * 2, [np.zeros(0)] * 2) == 0
    )
