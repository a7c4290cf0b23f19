"""Leave to use matrix registers: asked for only where code needs them, and one sentence where it is refused."""

from __future__ import annotations

import dataclasses
import platform
import re
import sys

import pytest

from byoc.codegen.c.toolchain import compiler as compilers
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import NO_MATRICES
from byoc.runtime.core.errors import UnavailableError
from byoc.runtime.core.processor import Processor, this_processor
from byoc.runtime.core.signature import Signature
from byoc.runtime.dso import matrix_permission
from byoc.runtime.dso.matrix_permission import matrix_refusal
from byoc.runtime.dso.module import DsoModule

AMX = Processor(this_processor().machine, ("amx_tile", "amx_bf16"))


@pytest.fixture
def refused(monkeypatch):
    monkeypatch.setattr(matrix_permission, "_refusal", lambda: "Operation not permitted")


@pytest.fixture
def permitted(monkeypatch):
    monkeypatch.setattr(matrix_permission, "_refusal", lambda: None)


def test_a_refusal_is_one_sentence_with_a_way_out(refused):
    assert matrix_refusal(AMX) == (
        "its code was compiled for a processor with amx_tile, which the system does not let this process use "
        "(Operation not permitted); compile the model on this machine"
    )


def test_leave_that_is_given_is_no_reason(permitted):
    assert matrix_refusal(AMX) is None


def test_the_system_is_not_asked_for_code_that_needs_no_matrix_registers(monkeypatch):
    monkeypatch.setattr(matrix_permission, "_refusal", lambda: pytest.fail("asked"))
    assert matrix_refusal(Processor("x86_64", ("avx512f", "avx512_bf16"))) is None


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="asks Linux on x86-64")
def test_linux_refuses_where_the_processor_has_none():
    if "amx_tile" in (this_processor().features or ()):
        pytest.skip("this processor has them: what the system answers is its own matter")
    assert matrix_permission._refusal.__wrapped__()


def test_a_library_that_may_not_have_its_registers_is_not_loaded(refused, monkeypatch):
    here = dataclasses.replace(AMX, features=(*(this_processor().features or ()), *(AMX.features or ())))
    monkeypatch.setattr("byoc.runtime.dso.module.this_processor", lambda: here)
    module = DsoModule(b"no library", [Signature("f", (), (), ())], "", processor=AMX)
    with pytest.raises(UnavailableError, match="^f cannot run here: its code .* does not let this process use"):
        module["f"]()


@pytest.fixture
def compiler_with_matrices(monkeypatch, tmp_path):
    """A compiler for a processor with matrix registers, unless its macros say that there are none."""
    real = find_compiler().command[0]
    script = tmp_path / "amx-cc"
    defines = "-D__AVX512F__=1 -D__AMX_TILE__=1 -D__AMX_BF16__=1"
    script.write_text(f'#!/bin/sh\ncase "$*" in *-mno-amx-tile*) exec {real} "$@";; esac\nexec {real} {defines} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    compilers._find.cache_clear()
    yield
    compilers._find.cache_clear()


@pytest.mark.needs_cc
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the flags are x86-64's")
def test_the_compiler_generates_for_matrix_registers_where_there_is_leave(compiler_with_matrices, permitted):
    assert "dot_bf16" in find_compiler().machine.matrices
    assert not set(NO_MATRICES) & set(find_compiler().flags)


@pytest.mark.needs_cc
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the flags are x86-64's")
def test_the_compiler_generates_for_vectors_where_leave_is_refused(compiler_with_matrices, refused):
    found = find_compiler()
    assert found.machine.matrices == frozenset() and set(NO_MATRICES) <= set(found.flags)
    assert not any(re.match("amx", f) for f in found.processor().features or ())
