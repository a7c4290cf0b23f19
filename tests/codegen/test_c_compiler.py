"""The C compiler and its cache: the order of search, errors, damage, concurrent builds."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import stat
import threading

import filelock
import pytest

from byoc.codegen.c.toolchain import compiler as compilers
from byoc.codegen.c.toolchain import object_cache
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.compiler_flags import float_range_flags
from byoc.codegen.c.toolchain.machine import Machine, processor_of
from byoc.errors import CompileError, CompilerNotFoundError, UserError
from byoc.runtime.core.processor import this_processor

pytestmark = [pytest.mark.needs_cc, pytest.mark.optimized]
SOURCE = "int forty_two(void) { return 42; }\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "c"


def _call(library: bytes, path) -> int:
    path.write_bytes(library)
    return ctypes.CDLL(str(path)).forty_two()


def test_a_library_is_built_once_and_then_comes_from_the_cache(cache, tmp_path, monkeypatch):
    first = find_compiler().build(SOURCE)
    assert _call(first, tmp_path / "a.so") == 42
    monkeypatch.setattr(compilers.CCompiler, "_compile", lambda *a: pytest.fail("compiled again"))
    assert find_compiler().build(SOURCE) == first


def test_other_flags_are_another_entry(cache):
    find_compiler().build(SOURCE)
    find_compiler().build(SOURCE, ("-O0",))
    assert len(list(cache.glob("*.so"))) == 2


@pytest.mark.parametrize("damage", [b"", b"\x7fELF and then nothing", b"x" * 100])
def test_a_damaged_entry_is_built_anew(cache, tmp_path, damage):
    good = find_compiler().build(SOURCE)
    (entry,) = cache.glob("*.so")
    entry.write_bytes(damage)
    assert _call(find_compiler().build(SOURCE), tmp_path / "b.so") == 42
    assert entry.read_bytes()[:-32] == find_compiler().build(SOURCE)
    assert len(good) > 100


def test_a_cache_that_can_only_be_read_is_read(cache, monkeypatch):
    built = find_compiler().build(SOURCE)
    monkeypatch.setattr(object_cache, "write_whole", lambda *a: pytest.fail("written to"))
    monkeypatch.setattr(filelock, "FileLock", lambda *a, **k: pytest.fail("locked"))
    assert find_compiler().build(SOURCE) == built


def test_a_cache_that_cannot_be_written_is_a_warning_and_a_folder_of_the_process(cache, tmp_path):
    cache.parent.write_bytes(b"")
    with pytest.warns(UserWarning, match=r"cannot be written \(Not a directory\).*BYOC_CACHE_DIR"):
        built = find_compiler().build(SOURCE)
    assert _call(built, tmp_path / "a.so") == 42 and find_compiler().build(SOURCE) == built


def test_nothing_half_written_stays_in_the_cache(cache):
    with pytest.raises(CompileError):
        find_compiler().build("int broken( {\n")
    assert not list(cache.glob("*.so"))
    assert {p.suffix for p in cache.iterdir()} <= {".c", ".lock"}


def test_a_refusal_shows_the_first_error_and_where_the_source_is(cache):
    with pytest.raises(CompileError, match=r"refused generated code: .*error.*; the source is .*\.c$") as caught:
        find_compiler().build("int broken(void) { return x; }\n")
    path = str(caught.value).rsplit(" ", 1)[1]
    with open(path, encoding="utf-8") as file:
        assert file.read() == "int broken(void) { return x; }\n"


def test_threads_that_build_the_same_source_compile_it_once(cache, monkeypatch):
    compile_one = compilers.CCompiler._compile
    calls = []
    monkeypatch.setattr(compilers.CCompiler, "_compile", lambda self, *a: (calls.append(1), compile_one(self, *a))[1])
    threads = [threading.Thread(target=find_compiler().build, args=(SOURCE,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def _script(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


def test_no_compiler_at_all_is_one_sentence_with_a_way_out(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compilers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompilerNotFoundError, match=r"install gcc, or run pip install 'byoc-compiler\[zig\]'$"):
        find_compiler()


def test_the_environment_variable_comes_before_the_compilers_on_the_path(monkeypatch, tmp_path):
    real = find_compiler().command[0]
    wrapper = _script(tmp_path, "my-cc", f'exec {real} "$@"')
    monkeypatch.setenv("CC", f"{wrapper} -DMARK=1")
    assert find_compiler().command == (str(wrapper), "-DMARK=1")
    monkeypatch.setenv("CC", "")
    assert [os.path.basename(c[0]) for c in compilers.candidates() if len(c) == 1] == [
        c for c in ("cc", "gcc", "clang") if any(os.access(f"{p}/{c}", os.X_OK) for p in os.environ["PATH"].split(":"))
    ]


def test_a_broken_compiler_on_the_path_is_passed_over(monkeypatch, tmp_path):
    real = find_compiler().command[0]
    _script(tmp_path, "cc", "exit 1")
    _script(tmp_path, "gcc", f'exec {real} "$@"')
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert find_compiler().command == (str(tmp_path / "gcc"),)


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("broken-cc", "exit status 1"),
        ("compiler-that-does-not-exist --flag", "cannot be started: No such file or directory"),
    ],
)
def test_a_compiler_that_the_user_names_and_does_not_work_is_not_replaced(monkeypatch, tmp_path, named, reason):
    _script(tmp_path, "broken-cc", "exit 1")
    monkeypatch.setenv("CC", str(tmp_path / named))
    message = rf"\$CC is '.*{named}', which does not work as a C compiler here \({reason}\): mend it or unset it$"
    with pytest.raises(CompilerNotFoundError, match=message):
        find_compiler()


def test_a_compiler_that_refuses_the_native_flag_is_used_without_it(monkeypatch, tmp_path):
    real = find_compiler().command[0]
    refuse = 'for a in "$@"; do if [ "$a" = "-march=native" ]; then echo no >&2; exit 1; fi; done'
    monkeypatch.setenv("CC", str(_script(tmp_path, "plain-cc", f'{refuse}\nexec {real} "$@"')))
    found = find_compiler()
    assert "-march=native" not in found.flags and "-O3" in found.flags


@pytest.mark.parametrize(("named", "flag"), [("", "-O3"), ("0", "-O0"), ("1", "-O1"), ("3", "-O3")])
def test_the_level_of_optimization_is_that_of_the_environment_and_else_the_highest(monkeypatch, named, flag):
    monkeypatch.setenv("BYOC_OPTIMIZATION", named)
    assert [f for f in find_compiler().flags if f.startswith("-O")] == [flag]


def test_code_of_another_level_is_another_entry(cache, monkeypatch):
    for level in ("1", "3", "1"):
        monkeypatch.setenv("BYOC_OPTIMIZATION", level)
        find_compiler().build(SOURCE)
    assert len(list(cache.glob("*.so"))) == 2


def test_a_level_that_there_is_not_is_refused(monkeypatch):
    monkeypatch.setenv("BYOC_OPTIMIZATION", "fast")
    with pytest.raises(UserError, match=r"^BYOC_OPTIMIZATION: there is no level 'fast'; name one of 0, 1, 2, 3, or"):
        find_compiler()


@pytest.mark.parametrize(
    ("macros", "machine"),
    [
        ({"__AVX512F__": "1", "__AVX__": "1"}, Machine(64, 24, 32)),
        ({"__AVX__": "1"}, Machine(32, 12, 16)),
        ({"__aarch64__": "1"}, Machine(16, 24, 32)),
        ({}, Machine(16, 8, 16)),
    ],
)
def test_the_machine_is_read_from_what_the_compiler_predefines(macros, machine):
    assert compilers.machine_of(macros) == machine
    assert dataclasses.is_dataclass(machine)


def test_code_for_another_processor_is_another_entry(cache, monkeypatch):
    find_compiler().build(SOURCE)
    compiler = find_compiler()
    other = dataclasses.replace(compiler.processor(), features=("avx9",))
    monkeypatch.setattr(compilers, "processor_of", lambda macros: other)
    compiler.build(SOURCE)
    assert len(list(cache.glob("*.so"))) == 2


def test_the_processor_that_code_needs_is_read_from_what_the_compiler_predefines():
    macros = dict.fromkeys(["__x86_64__", "__AVX2__", "__AVX512VNNI__", "__FMA__", "__CHAR_BIT__"], "1")
    needed = processor_of(macros)
    assert (needed.machine, set(needed.features)) == ("x86_64", {"avx2", "fma", "avx512_vnni"})
    assert processor_of({"__aarch64__": "1", "__ARM_FEATURE_SVE": "1"}).features == ("sve",)


def test_what_is_compiled_here_runs_here_and_plain_code_needs_less():
    compiler = find_compiler()
    assert this_processor().lacks(compiler.processor()) is None
    if this_processor().machine == "x86_64":
        plain = compiler.processor(("-march=x86-64",))
        assert not {"avx", "avx2", "avx512f"} & set(plain.features)
        assert "avx512f" in compiler.processor(("-march=skylake-avx512",)).features


def test_flags_that_the_compiler_refuses_are_named(cache):
    with pytest.raises(CompileError, match="refused the flags -march=abacus"):
        find_compiler().build(SOURCE, ("-march=abacus",))


CHAINS = """#include <math.h>
#include <stdint.h>
static inline float max_f32(float a, float b) {
  return a > b || a != a ? a : b;
}
static inline double max_f64(double a, double b) {
  return a > b || a != a ? a : b;
}
void of_three(const float *restrict p0, float *restrict most, float *restrict all, int64_t begin, int64_t end) {
  for (int64_t i0 = begin; i0 < end; ++i0) {
    float acc = -INFINITY;
    for (int64_t k = 0; k < 3; ++k) acc = max_f32(acc, max_f32(p0[k], -0.25971758f));
    most[0] = acc;
  }
  for (int64_t i0 = begin; i0 < end; ++i0) all[i0] = expf(max_f32(p0[i0], -0.25971758f) - most[0]);
}
void padded(const double *restrict p0, double *restrict pooled, int64_t begin, int64_t end) {
  for (int64_t i0 = 0; i0 < 3; ++i0)
    for (int64_t i3 = begin; i3 < end; ++i3) {
      double acc = -INFINITY;
      for (int64_t kh = 0; kh < 3; ++kh)
        for (int64_t kw = 0; kw < 3; ++kw) acc = max_f64(acc, kw < 2 ? p0[i0 * 6 + kh * 2 + kw] : -INFINITY);
      pooled[i0] = acc;
    }
}
"""


@pytest.mark.parametrize("flags", [("-ffp-contract=off",), ("-fno-tree-loop-vectorize",), ()])
def test_short_chains_of_maxima_are_compiled_in_time(cache, monkeypatch, flags):
    """GCC 13.3 goes round for ever in these without the flag that it is given."""
    monkeypatch.setenv("BYOC_COMPILER_SECONDS", "60")
    assert find_compiler().build(CHAINS, flags)


@pytest.mark.parametrize(
    ("macros", "has_flag"),
    [
        ({"__GNUC__": "13"}, True),
        ({"__GNUC__": "14"}, True),
        ({"__GNUC__": "12"}, False),
        ({"__GNUC__": "13", "__clang__": "1"}, False),
        ({}, False),
    ],
)
def test_gcc_that_knows_ranges_of_floats_does_not_propagate_them(macros, has_flag):
    assert ("-fno-tree-vrp" in float_range_flags(macros)) is has_flag
