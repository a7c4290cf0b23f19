"""Candidates in a process of their own: one that crashes, hangs or ends it is reported, and the others are timed."""

import dataclasses
import signal

import numpy as np
import pytest

from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.whole.kernel_team import kernel_team_source
from byoc.codegen.c.whole.support import PREAMBLE
from byoc.codegen.tune.trial_batch import CompiledCandidate, Timed, TrialBatch, run_batch
from byoc.codegen.tune.worker_process import WorkerProcess
from byoc.runtime.core.signature import Signature, TensorSpec

pytestmark = pytest.mark.needs_cc
COUNT = 1000
DOUBLED = "for (int64_t k = share(team, 0); k < share(team, 1); ++k) out[k] = 2 * in[k] + constant[0];"
KINDS = {
    "good": DOUBLED,
    "other": "(void)team; memset(out, 0, 4000); (void)in; (void)constant; (void)share;",
    "crash": f"{DOUBLED} *(volatile int *)8 = 1;",
    "hang": f"{DOUBLED} for (volatile int k = 0;;) k = k;",
    "exit": f"{DOUBLED} _Exit(3);",
    "late": f"static int calls; {DOUBLED} if (team->thread == 0 && ++calls > 3) *(volatile int *)8 = 1;",
}


def source(kinds):
    """A kernel ``in: f32[1000], constant: f32[1] -> out: f32[1000]`` for each of *kinds*."""
    parts = [
        PREAMBLE,
        "#include <stdlib.h>",
        f"""static int64_t share(const Team *team, int64_t end) {{
  return (team->thread + end) * {COUNT} / team->threads;
}}""",
    ]
    for number, kind in enumerate(kinds):
        parts.append(f"""
int32_t kernel_{number}(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team) {{
  const float *in = args[0], *constant = args[1];
  float *out = args[2];
  (void)sizes;
  (void)workspace;
  {KINDS[kind]}
  return 0;
}}
int64_t kernel_{number}_workspace(const int64_t *sizes) {{ (void)sizes; return 64; }}""")
    return "\n".join(parts)


def batch(*kinds, threads=1):
    compiler = find_compiler()
    library = compiler.build(source(kinds))
    x, c = TensorSpec("in", (COUNT,), "float32"), TensorSpec("constant", (1,), "float32")
    y = dataclasses.replace(x, name="out")
    compiled = tuple(
        CompiledCandidate(library, Signature(f"kernel_{k}", (x,), (y,), (c,)), (np.ones(1, "float32"),))
        for k in range(len(kinds))
    )
    team = compiler.build(kernel_team_source()) if threads > 1 else None
    inputs = (np.arange(COUNT, dtype="float32"),)
    return TrialBatch(compiled, inputs, ((COUNT,), "float32"), 3, threads, team)


@pytest.fixture
def worker():
    with WorkerProcess(limit=0.5) as process:
        yield process


def what(outcomes):
    return ["timed" if isinstance(o, Timed) else o for o in outcomes]


@pytest.mark.parametrize(
    "place, kind, reason",
    [
        (0, "crash", f"it crashed ({signal.Signals.SIGSEGV.name})"),
        (1, "crash", f"it crashed ({signal.Signals.SIGSEGV.name})"),
        (1, "late", f"it crashed ({signal.Signals.SIGSEGV.name})"),
        (1, "exit", "it ended with the status 3"),
        (0, "hang", "it did not end within 0.5 s"),
    ],
)
def test_what_takes_the_process_down_is_named_and_the_others_are_timed(worker, kind, reason, place):
    kinds = ["good", "good"]
    kinds.insert(place, kind)
    expected = ["timed", "timed"]
    expected.insert(place, f"failed: {reason}")
    assert what(worker.run(batch(*kinds))) == expected
    assert worker.started == 2
    assert what(worker.run(batch("good", "other"))) == ["timed", "failed: its result is another one"]
    assert worker.started == 2  # one process for many batches


def test_where_all_crash_all_are_named(worker):
    assert all(o.startswith("failed: it crashed") for o in worker.run(batch("crash", "crash")))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_team_computes_what_one_thread_computes(threads):
    assert what(run_batch(batch("good", "good", "other", threads=threads))) == [
        "timed",
        "timed",
        "failed: its result is another one",
    ]


def test_a_team_of_threads_crashes_in_its_own_process_too(worker):
    found = what(worker.run(batch("good", "crash", "good", threads=2)))
    assert found == ["timed", "failed: it crashed (SIGSEGV)", "timed"]


def test_a_library_that_cannot_be_loaded_is_a_reason(worker):
    whole = batch("good", "good")
    broken = dataclasses.replace(whole.compiled[1], library=b"no library")
    first, second = worker.run(dataclasses.replace(whole, compiled=(whole.compiled[0], broken)))
    assert isinstance(first, Timed) and "cannot be loaded" in second and worker.started == 1


def test_a_process_that_does_not_start_is_a_reason(worker, monkeypatch):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    (found,) = worker.run(batch("good"))
    assert "the process for measuring does not start" in found
