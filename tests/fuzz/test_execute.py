"""What the fuzzer takes for a refusal, and what for a failure."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import onnx.parser
import pytest

from byoc.codegen.c.toolchain import compiler as compilers
from fuzz.case import Case
from fuzz.configurations import alone
from fuzz.execute import AGREED, ERROR, execute
from fuzz.judge.compare import Judge
from fuzz.judge.oracle import wanted
from fuzz.loader import LoaderProcess

pytestmark = pytest.mark.needs_cc
MODEL = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
doubled (float[3] x) => (float[3] y) { y = Add (x, x) }""")


@pytest.mark.parametrize("script", ["sleep 60", "echo error: no such thing >&2; exit 1"], ids=["hangs", "refuses"])
def test_a_compiler_that_hangs_or_refuses_generated_code_is_a_failure(tmp_path, monkeypatch, script):
    feeds = [{"x": np.ones(3, "float32")}]
    case = Case("doubled", MODEL, feeds, wanted(MODEL, feeds))
    judges = [Judge(MODEL, feeds[0], list(case.wanted[0]))]
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("BYOC_LIBRARY_CACHE_MB", "0")
    real = compilers.find_compiler()
    assert execute(case, alone("c"), judges, LoaderProcess(), tmp_path).verdict == AGREED

    command = tmp_path / "cc"
    asked = f'case "$*" in *-dM*) exec {" ".join(real.command)} "$@";; esac'  # what it predefines it prints
    command.write_text(f"#!/bin/sh\n{asked}\n{script}\n")
    os.chmod(command, 0o755)
    broken = dataclasses.replace(real, command=(str(command),), version="another", limit=1.0)
    monkeypatch.setattr(compilers, "_find", lambda *a: broken)
    outcome = execute(case, alone("c"), judges, LoaderProcess(), tmp_path)
    assert outcome.verdict == ERROR and ("did not end" in outcome.text or "no such thing" in outcome.text)
