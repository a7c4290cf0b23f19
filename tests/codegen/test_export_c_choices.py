"""Exported C in lower precision and with tuned kernels: built with make, and compared with ONNX Runtime."""

import json
import shutil

import numpy as np
import pytest
from exported import DIGITS, ONE_IMAGE, agree, attention, build, convolutions, export, make_model, numbers, oracle, run
from onnx import helper

import byoc
from byoc.cli.main import main
from byoc.codegen.c.export.options import export_options
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.compiler_flags import NO_COMMONING as SHARED_STORES
from byoc.codegen.tune.database import Database
from byoc.codegen.tune.level import LEVELS
from byoc.codegen.tune.record import Trial
from byoc.codegen.tune.tuner import Tuner
from byoc.errors import UserError

pytestmark = [
    pytest.mark.needs_cc,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]
HALF = 2.0**-8  # of bfloat16: what one rounding changes, relative to the number


def needs_bf16():
    if "dot_bf16" not in find_compiler().machine.dots:
        pytest.skip("this processor has no instruction for products of bfloat16")


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("make", [convolutions, attention])
def test_products_in_bfloat16_are_onnx_runtimes_within_its_rounding(make, threads, tmp_path):
    needs_bf16()
    model, inputs = make()
    files = export(model, tmp_path, precision="bf16", threads=threads)
    assert b"bf16" in files["model.c"] and b"Products in bf16: " in files["README.txt"]
    build(tmp_path)
    expected = oracle(model, inputs)
    (found,) = run(tmp_path, inputs, expected).values()
    error = np.abs(found - expected[0]).max() / np.abs(expected[0]).max()
    assert 0 < error < 4 * HALF  # not 0: it did compute in bfloat16


def test_what_the_user_keeps_stays_in_f32_and_the_readme_says_why(tmp_path):
    needs_bf16()
    model, inputs = convolutions()
    files = export(model, tmp_path, precision="bf16", keep_f32=["nn.conv2d", "nn.dense"])
    assert b"the user keeps it in f32" in files["README.txt"] and b"Products in f32: 3" in files["README.txt"]
    build(tmp_path)
    expected = oracle(model, inputs)
    agree(run(tmp_path, inputs, expected).values(), expected)


def test_the_command_prints_what_did_not_become_narrower_as_the_readme_does(tmp_path, capsys):
    command = ["export-c", str(DIGITS), str(tmp_path), "--shape", "image=1,1,8,8", "--precision", "int8"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    (reason,) = [line for line in shown.splitlines() if "node_Conv_26" in line]
    assert "not narrower: it sums over fewer than 3 channels: " in reason
    assert "Products in f32: 3" in shown and "Products in int8: 1" in shown  # the dense one, by ranges when it runs
    assert reason in (tmp_path / "README.txt").read_text()
    assert main([*command, "--json"]) == 0
    assert reason in json.loads(capsys.readouterr().out)["notes"]


@pytest.mark.parametrize("portable", [False, True])
def test_products_that_the_model_quantizes_compute_on_integers(portable, tmp_path):
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["wq", "t", "o"], ["wd"]),
        helper.make_node("MatMul", ["xd", "wd"], ["y"]),
    ]
    weights = np.random.default_rng(0).integers(-127, 128, (32, 24)).astype("int8")
    constants = {"s": np.float32(0.02), "z": np.uint8(128), "t": np.float32(0.01), "o": np.int8(0), "wq": weights}
    model = make_model(nodes, [("x", "f4", (8, 32))], [("y", "f4", (8, 24))], constants)
    files = export(model, tmp_path, precision="int8", portable=portable)
    assert b"Products in int8: 1" in files["README.txt"]
    build(tmp_path, portable)
    x = numbers(8, 32)
    expected = oracle(model, [x])
    agree(run(tmp_path, [x], expected).values(), expected)


@pytest.mark.parametrize("portable", [False, True])
def test_samples_quantize_what_is_exported_as_they_do_what_is_compiled(portable, tmp_path, capsys):
    images = [numbers(1, 1, 8, 8, seed=k) for k in range(3)]
    np.savez(tmp_path / "samples.npz", image=np.stack(images))
    options = ["--shape", "image=1,1,8,8", "--precision", "int8", "--calibrate", tmp_path / "samples.npz"]
    options += ["--portable"] if portable else []
    assert main([str(word) for word in ("export-c", DIGITS, tmp_path / "out", *options)]) == 0
    shown = capsys.readouterr().out
    assert "Products in int8: 3" in shown and "int8 changes probabilities by " in shown
    build(tmp_path / "out", portable)
    samples = [{"image": image} for image in images]
    library = byoc.compile(DIGITS, shapes=ONE_IMAGE, precision="int8", calibration=samples)
    expected = library.run({"image": images[0]})
    agree(run(tmp_path / "out", [images[0]], expected).values(), expected)


def test_samples_are_for_int8_and_too_large_an_error_leaves_nothing(tmp_path):
    samples = [{"image": numbers(1, 1, 8, 8)}]
    with pytest.raises(UserError, match='calibration is for precision="int8"'):
        byoc.export_c(DIGITS, tmp_path / "out", shapes=ONE_IMAGE, calibration=samples)
    tight = byoc.Calibration(samples, max_error=1e-9)
    with pytest.raises(UserError, match="int8 changes output probabilities by .* more than max_error=1e-09"):
        byoc.export_c(DIGITS, tmp_path / "out", shapes=ONE_IMAGE, precision="int8", calibration=tight)
    assert not (tmp_path / "out").exists()


def _bytes_with(tmp_path, *options):
    command = ["export-c", DIGITS, tmp_path / "out", "--shape", "image=1,1,8,8", *options]
    assert main([str(word) for word in command]) == 0
    return (tmp_path / "out" / "model.c").read_bytes()


def test_the_command_says_which_convolutions_take_winograds_method(tmp_path):
    off, two, four = (_bytes_with(tmp_path, "--winograd", choice) for choice in ("off", "f2", "f4"))
    assert len({off, two, four}) == 3
    assert off == _bytes_with(tmp_path, "--strict") == _bytes_with(tmp_path, "--winograd-max-error", "1e-9")
    with pytest.raises(UserError, match="option 'flags' of backend c is for code that byoc compiles itself"):
        byoc.export_c(DIGITS, tmp_path / "no", shapes=ONE_IMAGE, backend_options={"c": {"flags": ["-O2"]}})
    with pytest.raises(UserError, match="backend c has no option 'winogard'"):
        byoc.export_c(DIGITS, tmp_path / "no", shapes=ONE_IMAGE, backend_options={"c": {"winogard": "off"}})


class Contrary:
    """Trials in which the model's own choice is always the slowest, so that another one wins."""

    def __init__(self):
        self.opened = []

    def __call__(self, bench, rounds, threads):
        self.opened.append(threads)
        return self

    def __enter__(self):
        return lambda space, candidates, rest: [Trial(c, 9.0 - k, 9.0 - k) for k, c in enumerate(candidates)]

    def __exit__(self, *error):
        return None


@pytest.mark.parametrize("threads", [False, True])
def test_what_threads_share_is_built_without_stores_that_gcc_adds(threads, tmp_path):
    byoc.export_c(DIGITS, tmp_path, shapes=ONE_IMAGE, threads=threads)
    assert (SHARED_STORES[0] in (tmp_path / "Makefile").read_text()) == threads


@pytest.mark.parametrize("threads", [False, True])
def test_tuned_choices_are_what_is_written_and_the_outputs_stay(threads, tmp_path):
    model, inputs = convolutions()
    plain = export(model, tmp_path / "plain", threads=threads)
    trial_runner = Contrary()
    tuner = Tuner(LEVELS["heavy"], Database(tmp_path / "tune"), trial_runner=trial_runner)
    files = export(model, tmp_path / "tuned", tune=tuner, threads=threads)
    assert files["model.c"] != plain["model.c"] and tuner.report.tuned
    assert any(record.choice != record.expected for record in tuner.report.tuned)
    build(tmp_path / "tuned")
    expected = oracle(model, inputs)
    agree(run(tmp_path / "tuned", inputs, expected).values(), expected)
    again = Tuner(LEVELS["heavy"], Database(tmp_path / "tune"), trial_runner=trial_runner)
    opened = len(trial_runner.opened)
    assert export(model, tmp_path / "again", tune=again, threads=threads) == files
    assert len(trial_runner.opened) == opened and again.report.known and not again.report.tuned


def test_what_compiling_found_is_used_when_exporting_for_one_thread(tmp_path):
    model, _ = convolutions()
    database, trial_runner = Database(tmp_path / "tune"), Contrary()
    first = Tuner(LEVELS["fast"], database, trial_runner=trial_runner, threads=1)
    byoc.compile(model.SerializeToString(), tune=first)
    second = Tuner(LEVELS["fast"], database, trial_runner=trial_runner, threads=1)
    export(model, tmp_path / "out", tune=second)
    assert first.report.tuned and second.report.known and not second.report.tuned


def test_the_command_tunes_into_a_database_and_reports(capsys, tmp_path):
    options = ["--shape", "image=1,1,8,8", "--tune", "fast", "--database", tmp_path / "known", "--json"]
    reports = []
    for folder in ("first", "second"):
        assert main([str(a) for a in ("export-c", DIGITS, tmp_path / folder, *options)]) == 0
        reports.append(json.loads(capsys.readouterr().out)["tuning"])
    assert reports[0]["trials"] > 0 and reports[1]["trials"] == 0 and len(reports[1]["known"]) > 0
    assert reports[0]["threads"] == [1] and list((tmp_path / "known").glob("*.jsonl"))
    first, second = ((tmp_path / name / "model.c").read_bytes() for name in ("first", "second"))
    assert first == second
    build(tmp_path / "second")
    image = numbers(1, 1, 8, 8)
    expected = oracle(DIGITS, [image])
    agree(run(tmp_path / "second", [image], expected).values(), expected)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tune": "fast", "portable": True}, "tuning times code on this one"),
        ({"tune": "much"}, "tune is one of none, fast, normal, wide, heavy, got 'much'"),
        ({"precision": "bf16", "portable": True}, "portable C has no instruction dot_bf16"),
        ({"precision": "half"}, "precision is one of f32, bf16, fp16, int8, got 'half'"),
        ({"precision": "int8", "keep_f32": ["nothing"]}, "no operator or ONNX node of the model is called 'nothing'"),
    ],
)
def test_options_that_do_not_go_together_are_one_sentence_and_leave_nothing(options, message, tmp_path):
    with pytest.raises(UserError, match=message):
        byoc.export_c(DIGITS, tmp_path / "out", shapes=ONE_IMAGE, **options)
    assert not (tmp_path / "out").exists()


def test_bfloat16_for_a_processor_without_its_products_is_refused_by_name():
    if find_compiler().processor().machine != "x86_64":
        pytest.skip("names of processors are those of x86-64")
    options = export_options(march="x86-64-v3")
    with pytest.raises(UserError, match="the processor of -march=x86-64-v3 has no instruction dot_bf16"):
        options.check_precision("dot_bf16")
