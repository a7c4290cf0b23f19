"""The whole model as one C function: its text, its arena, and what sanitizers say of its threads."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.annex.testing import mobilenet, resnet
from byoc.codegen.c.backend import WHOLE_PROGRAM
from byoc.codegen.c.emit import emit_library
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.emit import emit_whole_program
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.c.whole.program import CallStep, CopyStep, ExternalStep, no_whole_program, plan_whole_program
from byoc.codegen.c.whole.unit import Units
from byoc.codegen.kernel.lower import lower_function
from byoc.driver.compiler.compile import CompileOptions
from byoc.driver.host import lower_host
from byoc.driver.pipeline import optimize, prepare_host
from byoc.ir.span import Span
from byoc.ir.types import Any, TensorType
from byoc.runtime.graph.graph import Graph
from byoc.runtime.graph.memory_plan import Lifetime, largest_live_bytes, plan_memory

MACHINE = Machine(64, 24)


def host_of(mod):
    """The graph of a module, and the programs that it calls, ready to be written."""
    mod = optimize(relay.transform.InferType()(mod))
    mod = prepare_host()(CompileOptions().plan(mod).apply(mod))
    host = lower_host(mod["main"], {})
    programs = [prepare(lower_function(f, s), MACHINE) for s, f in host.functions.compiled.items()]
    return Graph(host.graph), programs


def planned(mod):
    """The plan of a whole module."""
    graph, programs = host_of(mod)
    assert no_whole_program(graph) is None
    units = Units(MACHINE)
    calls = {p.symbol: units.calls(p) for p in programs}
    return plan_whole_program("run", graph, {p.symbol: p for p in programs}, calls)


def mixed_model():
    """Named sizes, a reshape, a function without C in the middle, an output that is an input, and one twice."""
    x = relay.var("features", TensorType((Any("batch"), 6)))
    steps = [relay.exp(x)]
    steps.append(relay.trilu(steps[-1], relay.const(0, "int32")))
    steps.append(relay.tanh(steps[-1]))
    for node, name in zip(steps, ("Exp_0", "Trilu_1", "Tanh 2; */"), strict=True):
        node.span = Span.named(name)
    outputs = relay.Tuple([steps[-1], x, steps[-1]])
    return byoc.IRModule.from_expr(relay.Function([x], outputs))


def static_model():
    x = relay.var("image", shape=(1, 3, 8, 8))
    weight = relay.const(np.ones((4, 3, 3, 3), "float32"))
    y = relay.nn.conv2d(x, weight, padding=(1, 1), channels=4, kernel_size=(3, 3))
    y.span = Span.named("Conv_0")
    z = relay.nn.softmax(relay.nn.batch_flatten(relay.nn.max_pool2d(y, (2, 2), (2, 2))))
    z.span = Span.named("Softmax_3")
    return byoc.IRModule.from_expr(relay.Function([x], z))


@pytest.mark.parametrize(("name", "make"), [("whole_mixed", mixed_model), ("whole_static", static_model)])
def test_the_program_is_what_was_read_and_approved(name, make, golden):
    text = emit_whole_program(planned(make()))[0].text
    golden(f"c/{name}.c", re.sub(r"_[0-9a-f]{12}\(", "_HASH(", text))  # the hash is that of the group's own text


def test_reshapes_are_other_names_and_the_rest_are_calls_copies_and_externals():
    plan = planned(mixed_model())
    assert [type(step) for step in plan.steps] == [CallStep, ExternalStep, CallStep, CopyStep, CopyStep]
    assert plan.steps[0].buffers[-1] is plan.steps[1].buffers[0]
    assert [step.buffers[1] for step in plan.steps[3:]] == plan.outputs[1:]


def transformer():
    """Two layers of attention and a feed-forward network, with residuals."""
    rng = np.random.default_rng(0)

    def dense(rows, width):
        weight = rng.standard_normal((width, int(rows.checked_type.shape[1]))).astype("float32")
        return infer(relay.nn.dense(rows, relay.const(weight)))

    def infer(expr):
        return relay.transform.InferType()(byoc.IRModule.from_expr(expr))["main"].body

    x = relay.var("x", shape=(32, 64))
    value = infer(relay.tanh(x))
    for _ in range(2):
        q, k, v = (relay.transpose(relay.reshape(dense(value, 64), (32, 4, 16)), (1, 0, 2)) for _ in range(3))
        scores = relay.nn.softmax(relay.nn.batch_matmul(q, k))
        mixed = relay.nn.batch_matmul(scores, relay.transpose(v, (0, 2, 1)))
        joined = infer(relay.reshape(relay.transpose(mixed, (1, 0, 2)), (32, 64)))
        value = infer(relay.add(value, dense(joined, 64)))
        value = infer(relay.add(value, dense(infer(relay.nn.relu(dense(value, 256))), 64)))
    return byoc.IRModule.from_expr(value)


NETWORKS = {
    "resnet": lambda: resnet.get_workload(num_layers=18, image_shape=(3, 64, 64), num_classes=10)[0],
    "mobilenet": lambda: mobilenet.get_workload(image_shape=(3, 64, 64), num_classes=10)[0],
    "transformer": transformer,
    "static": static_model,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_arena_is_within_ten_percent_of_what_lives_at_once(name):
    plan = planned(NETWORKS[name]())
    lives = [
        Lifetime(int(np.prod(b.shape)) * np.dtype(b.dtype).itemsize, first, last)
        for b, (first, last) in plan.lifetimes().items()
    ]
    arena = emit_whole_program(plan)[1].arena_bytes
    assert len(lives) >= 2 and arena == plan_memory(lives).total
    assert largest_live_bytes(lives) <= arena <= 1.1 * largest_live_bytes(lives)


def test_a_library_takes_no_memory_in_a_run():
    graph, programs = host_of(static_model())
    text = emit_library(programs, MACHINE, graph, WHOLE_PROGRAM).text()
    pool = text.index("#include <pthread.h>")
    assert "alloc" not in text[:pool] and text[pool:].count("alloc(") == 1  # the pool's own memory, once for all runs


MAIN = """
#include <stdio.h>
int main(void) {{
  static float image[192], panels[{constants}][65536], result[64];
  static uint8_t workspace[{arena}];
  void *args[] = {{image, {places}result}};
  for (int k = 0; k < 192; ++k) image[k] = (float)k / 192;
  for (int64_t threads = 1; threads < 5; ++threads) {{
    Run state = {{0}};
    Pool *pool = pool_new(threads, &state);
    for (int run = 0; run < 50; ++run)
      if (pool_run(pool, {symbol}, args, 0, workspace, 0)) return 1;
    pool_free(pool);
  }}
  printf("%g\\n", (double)result[0]);
  return 0;
}}
"""


@pytest.mark.needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_a_program_as_a_team_runs_it_has_no_race_and_reads_only_its_buffers(sanitizer, tmp_path):
    graph, programs = host_of(static_model())
    source = emit_library(programs, find_compiler().machine, graph, WHOLE_PROGRAM)
    count = len(source.whole.constants)
    main = MAIN.format(
        constants=count,
        arena=source.whole.arena_bytes,
        symbol=WHOLE_PROGRAM,
        places="".join(f"panels[{k}], " for k in range(count)),
    )
    (tmp_path / "main.c").write_text(source.text() + main)
    flags = ["-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-pthread"]
    build = [*find_compiler().command, *find_compiler().flags, *flags, "main.c", "-o", "main", "-lm"]
    built = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "cannot find" in built.stderr:
        pytest.skip(f"the compiler has no library for -fsanitize={sanitizer}")
    assert built.returncode == 0, built.stderr
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
