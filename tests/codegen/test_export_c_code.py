"""The code of an exported model: what it holds and needs, arenas, threads, other compilers, equal bytes each time."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from exported import (
    DIGITS,
    KIND_NAMES,
    KINDS,
    MODELS,
    ONE_IMAGE,
    build,
    checked_by,
    export,
    make_model,
    numbers,
    odd_names,
    run,
)
from onnx import helper

from byoc.codegen.c.export.options import export_options
from byoc.codegen.c.export.weights import number_texts

pytestmark = [
    pytest.mark.needs_cc,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]


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
        pytest.skip("the C compiler does not report the stack that it takes")
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
        "from byoc.cli.main import main\nsys.exit(main(sys.argv[1:]))"
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


def test_a_compiler_for_another_processor_is_refused_with_the_reason(tmp_path):
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
