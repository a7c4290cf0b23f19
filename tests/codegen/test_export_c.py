"""C to take away, as its user meets it: built with make, run without Python, compared with ONNX Runtime."""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import byoc
from byoc.codegen.c.export.options import export_options
from byoc.codegen.c.export.weights import number_texts
from byoc.driver.cli.main import main
from byoc.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
SHARED = ROOT.parent / "shared" / "models" / "mnist.onnx"
ONE_IMAGE = {"image": (1, 1, 8, 8)}
WARNINGS = "-Wall -Wextra -Werror"
KINDS, KIND_NAMES = [{}, {"portable": True}, {"threads": True}], ["vectors", "portable", "threads"]
FLAGS = {False: f"CFLAGS=-O1 {WARNINGS}", True: f"CFLAGS=-O1 {WARNINGS} -pedantic"}
pytestmark = [
    pytest.mark.needs_cc,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]


def export(model, folder, shapes=None, **options):
    """The files of *model* in *folder*: their bytes by name."""
    data = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    byoc.export_c(data, folder, shapes=shapes, **options)
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def build(folder, portable=False, flags=None):
    """Make the example, with warnings as errors."""
    done = subprocess.run(["make", "-s", "-C", folder, flags or FLAGS[portable]], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def run(folder, inputs, outputs, program="model"):
    """The outputs of the built example on *inputs*, as arrays like *outputs*, by their file's names in order."""
    (folder / "results").mkdir(exist_ok=True)
    paths = []
    for k, array in enumerate(inputs):
        paths.append(folder / "results" / f"in{k}.raw")
        array.tofile(paths[-1])
    command = [folder / program, "-o", folder / "results", *paths]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    names = [line.split(":")[0] for line in done.stdout.splitlines()]
    files = {p.stem: p.read_bytes() for p in (folder / "results").glob("*.bin")}
    assert sorted(names) == sorted(files)
    return {n: np.frombuffer(files[n], o.dtype).reshape(o.shape) for n, o in zip(names, outputs, strict=True)}


def oracle(model, inputs):
    """What ONNX Runtime gives for *inputs*, in the order of the model's."""
    data = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, quiet, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: a for i, a in zip(session.get_inputs(), inputs, strict=True)})


def agree(found, expected):
    """Whether values are those of the oracle: floats nearly, all else exactly."""
    for values, array in zip(found, expected, strict=True):
        if array.dtype.kind == "f":
            np.testing.assert_allclose(values, array, rtol=1e-4, atol=1e-5 * max(1.0, np.abs(array).max()))
        else:
            np.testing.assert_array_equal(values, array)


def checked_by(folder, source, *flags):
    """Compile *source* with the model's objects as a program of its own, and run it: what it printed."""
    (folder / "check.c").write_text(source)
    objects = [str(p) for p in sorted(folder.glob("model*.o"))]
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", *flags, "check.c", *objects, "-o", "check", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    done = subprocess.run([folder / "check"], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def make_model(nodes, inputs, outputs, constants=()):
    """A model of *nodes*; inputs and outputs are ``(name, dtype, shape)``, constants ``name: array``."""
    def value(name, dtype, shape):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    initializers = [numpy_helper.from_array(a, n) for n, a in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", [value(*i) for i in inputs], [value(*o) for o in outputs], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def numbers(*shape, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) / 4).astype("float32")


def convolutions():
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], group=8, pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["c1"], ["s"]),
        helper.make_node("Mul", ["c1", "s"], ["m"]),
        helper.make_node("GlobalAveragePool", ["m"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["y"]),
    ]
    constants = {"w0": numbers(8, 3, 3, 3), "b0": numbers(8), "w1": numbers(8, 1, 3, 3), "w2": numbers(8, 5),
                 "b2": numbers(5)}
    model = make_model(nodes, [("x", "f4", (1, 3, 17, 15))], [("y", "f4", (1, 5))], constants)
    return model, [numbers(1, 3, 17, 15, seed=1)]


def attention():
    nodes = [
        helper.make_node("LayerNormalization", ["x", "g", "b"], ["n"], axis=-1),
        *(helper.make_node("MatMul", ["n", f"w{k}"], [k]) for k in "qkv"),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["soft"], axis=-1),
        helper.make_node("MatMul", ["soft", "v"], ["mixed"]),
        helper.make_node("Add", ["mixed", "x"], ["sum"]),
        helper.make_node("Erf", ["sum"], ["erf"]),
        helper.make_node("Mul", ["sum", "erf"], ["y"]),
    ]
    constants = {"g": numbers(16), "b": numbers(16), **{f"w{k}": numbers(16, 16, seed=i) for i, k in enumerate("qkv")}}
    model = make_model(nodes, [("x", "f4", (1, 7, 16))], [("y", "f4", (1, 7, 16))], constants)
    return model, [numbers(1, 7, 16, seed=5)]


def integers():
    """Sums and products that overflow, a look-up by int64, and a result of truth values."""
    nodes = [
        helper.make_node("Mul", ["a", "a"], ["square"]),
        helper.make_node("Add", ["square", "a"], ["wrapped"]),
        helper.make_node("Gather", ["table", "rows"], ["picked"], axis=0),
        helper.make_node("Mul", ["picked", "picked"], ["long"]),
        helper.make_node("Greater", ["a", "limit"], ["above"]),
        helper.make_node("Mul", ["u", "u"], ["narrow"]),
        helper.make_node("Abs", ["a"], ["size"]),
    ]
    table = np.random.default_rng(3).integers(-(2**62), 2**62, (9, 4))
    constants = {"table": table, "limit": np.asarray(5, "int32")}
    outputs = [("wrapped", "i4", (37,)), ("long", "i8", (3, 4)), ("above", "?", (37,)),
               ("narrow", "u4", (37,)), ("size", "i4", (37,))]
    model = make_model(nodes, [("a", "i4", (37,)), ("rows", "i8", (3,)), ("u", "u4", (37,))], outputs, constants)
    rng = np.random.default_rng(0)
    a = rng.integers(-(2**31), 2**31, 37).astype("int32")
    return model, [a, np.array([8, -1, 0]), rng.integers(0, 2**32, 37).astype("uint32")]


def one_place():
    """A look-up where there is one place to look: what is looked up by is not read."""
    nodes = [helper.make_node("Gather", ["x", "rows"], ["y"], axis=0)]
    return make_model(nodes, [("x", "f4", (1, 5)), ("rows", "i4", (3,))], [("y", "f4", (3, 5))]), [
        numbers(1, 5), np.array([0, -1, 0], "int32")
    ]


def no_inputs():
    """Nothing to give: what comes out is a constant, and another of no dimensions."""
    constants = {"c": numbers(3, 4), "d": np.asarray(7, "int64")}
    nodes = [helper.make_node("Identity", ["c"], ["y"]), helper.make_node("Identity", ["d"], ["z"])]
    return make_model(nodes, [], [("y", "f4", (3, 4)), ("z", "i8", ())], constants), []


def odd_names():
    """Names that are words of C, code, macros, equal but for what C cannot spell, and an input nobody reads."""
    names = ["int", "x*/ int y; /*", "a.b", "a:b", "EOF", "arena", "class", "9th"]
    nodes = [helper.make_node("Sum", names[:-1], ["NULL"]), helper.make_node("Identity", ["int"], ["main"]),
             helper.make_node("Neg", ["NULL"], ['"quote\\'])]
    model = make_model(
        nodes, [(n, "f4", (2, 3)) for n in names], [(n, "f4", (2, 3)) for n in ("NULL", "main", '"quote\\')]
    )
    return model, [numbers(2, 3, seed=k) for k in range(len(names))]


MODELS = {"convolutions": convolutions, "attention": attention, "integers": integers, "one place": one_place,
          "no inputs": no_inputs, "odd names": odd_names}


@pytest.mark.parametrize("options", KINDS, ids=KIND_NAMES)
@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_gives_what_onnx_runtime_gives(name, options, tmp_path):
    model, inputs = MODELS[name]()
    export(model, tmp_path, **options)
    build(tmp_path, options.get("portable", False))
    expected = oracle(model, inputs)
    agree(run(tmp_path, inputs, expected).values(), expected)


@pytest.mark.parametrize("portable", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_the_sanitizers_find_nothing(name, portable, tmp_path):
    model, inputs = MODELS[name]()
    export(model, tmp_path, portable=portable)
    flags = f"{FLAGS[portable]} -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    if subprocess.run(["make", "-s", "-C", tmp_path, flags, "main.o"], capture_output=True).returncode != 0:
        pytest.skip("the C compiler has no sanitizers")
    build(tmp_path, portable, flags)
    expected = oracle(model, inputs)
    agree(run(tmp_path, inputs, expected).values(), expected)


@pytest.mark.parametrize("portable", [False, True])
def test_sums_of_integers_wrap(portable, tmp_path):
    node = helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)
    export(make_model([node], [("x", "i4", (100,))], [("y", "i4", ())]), tmp_path, portable=portable)
    build(tmp_path, portable)
    x = np.random.default_rng(0).integers(-(2**31), 2**31, 100).astype("int32")
    total = x.sum(dtype="int32")
    assert total != x.sum(dtype="int64")  # it does leave its type
    assert run(tmp_path, [x], [total])["y"] == total


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("weights", ["c", "incbin", "bin"])
def test_weights_lie_where_the_option_says(weights, portable, tmp_path):
    if portable and weights == "incbin":
        with pytest.raises(UserError, match="takes an assembler: choose c or bin"):
            export_options(portable=True, weights="incbin")
        return
    files = export(DIGITS, tmp_path, ONE_IMAGE, portable=portable, weights=weights)
    assert ("model_weights.bin" in files) == (weights != "c")
    assert ("model_weights.c" in files) == (weights != "bin")
    build(tmp_path, portable)
    image = numbers(1, 1, 8, 8) * 16
    expected = oracle(DIGITS, [image])
    agree(run(tmp_path, [image], expected).values(), expected)


@pytest.mark.parametrize("portable", [False, True])
def test_the_shared_digit_model_runs_without_python(portable, tmp_path):
    if not SHARED.is_file():
        pytest.skip(f"{SHARED} is not here")
    export(SHARED, tmp_path, portable=portable)
    build(tmp_path, portable)
    image = np.random.default_rng(0).uniform(0, 255, (1, 1, 28, 28)).astype("float32")
    expected = oracle_of_shared(image)
    agree(run(tmp_path, [image], expected).values(), expected)


def oracle_of_shared(image):
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    session = onnxruntime.InferenceSession(SHARED, quiet, providers=["CPUExecutionProvider"])
    return session.run(None, {"Input3": image})


@pytest.fixture(scope="module", params=KINDS, ids=KIND_NAMES)
def digits(request, tmp_path_factory):
    """The digit classifier, exported and built."""
    folder = tmp_path_factory.mktemp("digits")
    export(DIGITS, folder, ONE_IMAGE, **request.param)
    build(folder, request.param.get("portable", False))
    return folder, request.param


def test_the_code_has_no_variables_and_no_way_to_get_memory_or_to_print(digits):
    folder, _ = digits
    objects = [str(p) for p in sorted(folder.glob("model*.o"))]
    listed = subprocess.run(["nm", *objects], capture_output=True, text=True, check=True).stdout
    symbols = [line.split()[-2:] for line in listed.splitlines() if len(line.split()) > 1]
    assert {kind for kind, _ in symbols} <= set("TtRrU"), listed
    called = {name for kind, name in symbols if kind == "U"}
    assert not called & {"malloc", "calloc", "realloc", "free", "printf", "puts", "fprintf", "abort", "pthread_create"}
    public = {name for kind, name in symbols if kind in "TR"}
    assert all(name.startswith("model_") for name in public)


def test_the_header_knows_the_stack_that_the_compiler_takes(digits):
    folder, _ = digits
    command = ["make", "-s", "-B", "-C", folder, "CFLAGS=-O1 -fstack-usage", "model.o"]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("the C compiler does not tell the stack that it takes")
    taken = max(int(line.split("\t")[1]) for line in (folder / "model.su").read_text().splitlines())
    header = (folder / "model.h").read_text()
    known = int(header.split("MODEL_STACK_BYTES ")[1].split()[0])
    assert known - 1024 <= taken <= known + 8192


ARENA = """#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "model.h"
#define GUARD 4096
typedef struct {
  _Alignas(MODEL_ARENA_ALIGNMENT) unsigned char bytes[GUARD + MODEL_ARENA_BYTES + GUARD];
  float image[64], out[10];
  int runs;
} Job;
static Job jobs[2];
static void *work(void *argument) {
  Job *job = argument;
  for (int k = 0; k < job->runs; ++k)
    if (model_run(job->image, job->out, job->bytes + GUARD) != MODEL_OK) return job;
  return 0;
}
int main(void) {
  float expected[2][10];
  for (int j = 0; j < 2; ++j) {
    memset(jobs[j].bytes, 0xA5, sizeof jobs[j].bytes);
    for (int k = 0; k < 64; ++k) jobs[j].image[k] = (float)((k * (3 + 4 * j)) % 17);
    jobs[j].runs = 1;
    if (work(&jobs[j])) return 1;
    memcpy(expected[j], jobs[j].out, sizeof expected[j]);
    memset(jobs[j].out, 0, sizeof expected[j]);
    jobs[j].runs = 300;
  }
  if (memcmp(expected[0], expected[1], sizeof expected[0]) == 0) return 2;
  pthread_t ids[2];
  for (int j = 0; j < 2; ++j) pthread_create(&ids[j], 0, work, &jobs[j]);
  for (int j = 0; j < 2; ++j) {
    void *failed;
    pthread_join(ids[j], &failed);
    if (failed || memcmp(expected[j], jobs[j].out, sizeof expected[j]) != 0) return 3;
  }
  for (int j = 0; j < 2; ++j)
    for (int k = 0; k < GUARD; ++k)
      if (jobs[j].bytes[k] != 0xA5 || jobs[j].bytes[GUARD + MODEL_ARENA_BYTES + k] != 0xA5) return 4;
  if (model_run(0, jobs[0].out, jobs[0].bytes) != MODEL_NULL_POINTER) return 5;
  if (model_run(jobs[0].image, jobs[0].out, 0) != MODEL_NULL_POINTER) return 6;
  if (model_run(jobs[0].image, jobs[0].out, jobs[0].bytes + 1) != MODEL_UNALIGNED) return 7;
  puts("good");
  return 0;
}
"""


def test_threads_run_a_model_at_once_each_in_its_arena_and_write_nothing_beside_it(digits):
    assert checked_by(digits[0], ARENA, "-pthread") == "good\n"


TEAM = """#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "model.h"
enum { THREADS = 3, RUNS = 50 };
static _Alignas(MODEL_ARENA_ALIGNMENT) unsigned char arena[MODEL_ARENA_BYTES];
static model_meeting meeting;
static float image[64], out[10], alone[10];
static void *work(void *thread) {
  for (int k = 0; k < RUNS; ++k)
    if (model_run_part(image, out, arena, (int)(size_t)thread, THREADS, &meeting) != MODEL_OK) return arena;
  return 0;
}
int main(void) {
  for (int k = 0; k < 64; ++k) image[k] = (float)(k * 7 % 17);
  if (model_run(image, alone, arena) != MODEL_OK) return 1;
  pthread_t ids[THREADS];
  for (size_t k = 0; k < THREADS; ++k) pthread_create(&ids[k], 0, work, (void *)k);
  for (size_t k = 0; k < THREADS; ++k) {
    void *failed;
    pthread_join(ids[k], &failed);
    if (failed) return 2;
  }
  if (memcmp(out, alone, sizeof out) != 0) return 3;
  if (model_run_part(image, out, arena, 3, 3, &meeting) != MODEL_BAD_THREAD) return 4;
  if (model_run_part(image, out, arena, 0, 1, 0) != MODEL_NULL_POINTER) return 5;
  puts("good");
  return 0;
}
"""


def test_threads_of_the_user_share_a_run_and_give_the_bits_of_one(digits):
    folder, options = digits
    if options.get("threads"):
        assert checked_by(folder, TEAM, "-pthread") == "good\n"
    else:
        assert b"run_part" not in (folder / "model.h").read_bytes()


def test_the_header_is_one_of_c_plus_plus_too(tmp_path):
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler is installed")
    export(odd_names()[0], tmp_path, threads=True)
    (tmp_path / "check.cc").write_text('#include "model.h"\nint main() { return MODEL_OK; }\n')
    command = ["c++", "-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "check.cc"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_same_model_gives_the_same_bytes_under_any_hash_seed_and_builds_to_the_same_program(tmp_path):
    code = (
        "import sys, pathlib\nsys.argv = ['byoc', *sys.argv[1:]]\n"
        "from byoc.driver.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    texts = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        command = [sys.executable, "-c", code, "export-c", DIGITS, folder, "--shape", "image=1,1,8,8", "--threads"]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True)
        texts.append({p.name: p.read_bytes() for p in folder.iterdir()})
        build(folder)
        texts[-1]["model.o"] = (folder / "model.o").read_bytes()
    assert texts[0] == texts[1]


def test_a_compiler_for_another_processor_is_told_so(tmp_path):
    options = export_options(march="native")
    if options.macro is None:
        pytest.skip("code for this processor needs nothing that another lacks")
    export(DIGITS, tmp_path, ONE_IMAGE)
    command = ["make", "-C", tmp_path, "NEEDED=-std=gnu11", "model.o"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and f"this code is for processors with {options.macro[1]}" in done.stderr


def test_portable_code_uses_nothing_of_gcc_and_indices_of_32_bits(tmp_path):
    for name, make in MODELS.items():
        source = export(make()[0], tmp_path / name, portable=True)["model.c"].decode()
        assert not any(word in source for word in ("__", "asm", "_Alignas", "typeof", "team")), name
        assert "for (int32_t " in source


def test_portable_code_compiles_for_a_microcontroller(tmp_path):
    compiler = shutil.which("arm-none-eabi-gcc")
    if compiler is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    export(DIGITS, tmp_path, ONE_IMAGE, portable=True)
    flags = ["-mcpu=cortex-m4", "-mthumb", "-Os", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    done = subprocess.run([compiler, *flags, "-c", "model.c"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    listed = subprocess.run(["arm-none-eabi-nm", "model.o"], capture_output=True, text=True, cwd=tmp_path).stdout
    assert not any(name in listed for name in ("ldivmod", "lmul"))  # no arithmetic of 64 bits


def test_equal_weights_are_kept_once_and_special_numbers_survive(tmp_path):
    w = numbers(4, 4)
    w[0] = [np.inf, -np.inf, 1e-45, 3.4e38]
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"]), helper.make_node("Add", ["x", "v"], ["z"])]
    model = make_model(nodes, [("x", "f4", (4, 4))], [("y", "f4", (4, 4)), ("z", "f4", (4, 4))], {"w": w, "v": w})
    files = export(model, tmp_path, portable=True)
    assert files["model_weights.c"].count(b"= {") == 1
    build(tmp_path, True)
    found = run(tmp_path, [np.ones((4, 4), "f4")], [w, w])
    np.testing.assert_array_equal(found["y"], w)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_numbers_read_back_as_they_were(dtype):
    info = np.finfo(dtype) if dtype.startswith("f") else np.iinfo(dtype)
    values = np.array([info.min, info.max, 0, 1], dtype)
    if dtype.startswith("f"):
        values = np.append(values, np.array([info.tiny, info.eps, -1 / 3, -0.0], dtype))
    for text, value in zip(number_texts(values, dtype), values, strict=True):
        plain = text.replace("INT64_MIN", str(-(2**63))).removeprefix("U").removeprefix("INT64_C").strip("()")
        read = np.dtype(dtype).type(plain.removesuffix("f") if dtype == "float32" else plain)
        assert read.tobytes() == value.tobytes()


def cli(capsys, *argv):
    code = main([str(a) for a in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_writes_a_folder_and_says_how_to_build_it(capsys, tmp_path):
    folder = tmp_path / "new" / "out"
    code, out, err = cli(
        capsys, "export-c", DIGITS, folder, "--shape", "image=1,1,8,8", "--symbol-prefix", "digits", "--portable"
    )
    assert (code, err) == (0, "")
    assert {p.name for p in folder.iterdir()} == {
        "digits.c", "digits.h", "digits_weights.c", "digits_weights.h", "main.c", "Makefile", "README.txt",
    }
    assert f"build it: make -C {folder}" in out
    build(folder, True)
    image = numbers(1, 1, 8, 8)
    expected = oracle(DIGITS, [image])
    agree(run(folder, [image], expected, "digits").values(), expected)


def sorting():
    node = helper.make_node("NonZero", ["x"], ["y"], name="find_them")
    return make_model([node], [("x", "f4", (4,))], [("y", "i8", (1, "n"))])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "the inputs image[batch, 1, 8, 8] have free dimensions"),
        (["--shape", "image=1,1,8,8", "--portable", "--threads"], "portable C has no threads"),
        (["--shape", "image=1,1,8,8", "--portable", "--march", "x86-64-v3"], "portable C is for any processor"),
        (["--shape", "image=1,1,8,8", "--symbol-prefix", "int"], "symbol 'int' cannot be the name of a C function"),
        (["--shape", "image=1,1,8,8", "--march", "nonsense"], "refused the flags -march=nonsense"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence_and_leaves_nothing(capsys, tmp_path, options, message):
    code, out, err = cli(capsys, "export-c", DIGITS, tmp_path / "out", *options)
    assert (code, out) == (2, "")
    assert message in err and len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_operators_without_generated_c_are_named(capsys, tmp_path):
    onnx.save(sorting(), tmp_path / "m.onnx")
    code, _, err = cli(capsys, "export-c", tmp_path / "m.onnx", tmp_path / "out")
    assert code == 2 and "find_them" in err and len(err.splitlines()) == 1


def test_a_place_that_is_no_folder_is_refused(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = cli(capsys, "export-c", DIGITS, tmp_path / "file", "--shape", "image=1,1,8,8")
    assert code == 2 and "this is a file; name a folder" in err
