"""Fusing knows no hardware and comes before kernels are picked; tuning stays inside one layout."""

import numpy as np

from byoc import relay
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.c.winograd.options import WinogradOptions
from byoc.codegen.kernel.choice import Fixed, SpaceCollector
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.contract import BACKENDS, PatternEntry
from byoc.driver.pipeline import optimize
from byoc.ir.passes.instrument import PassInstrument
from byoc.ir.passes.transform import PassContext
from byoc.partition import make_plan
from byoc.partition.places import KernelRegistry, PlacementUnit, score_places
from byoc.relay import op
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.relay.transform import FuseOps

MACHINE, DIRECT = Machine(64, 24, 32), WinogradOptions(())


class Recorder(PassInstrument):
    """The names of the passes in the order in which they began."""

    def __init__(self):
        self.names = []

    def run_before_pass(self, mod, info):
        self.names.append(info.name)


def network():
    x, w = relay.var("x", shape=(1, 4, 6, 6)), relay.const(np.ones((4, 4, 3, 3), "float32"))
    y = op.nn.relu(op.nn.conv2d(x, w, padding=(1, 1), kernel_size=(3, 3), channels=4))
    return relay.IRModule.from_expr(relay.Function([x], op.tanh(op.add(op.nn.dropout(y), y))))


def test_fusing_with_no_backend_registered_gives_the_same_graph(monkeypatch):
    with_backends = FuseOps(2)(optimize(network()))
    for registry in (BACKENDS, PATTERN_TABLES, TARGET_PREDICATES):
        monkeypatch.setattr(registry, "_values", {})
    without = FuseOps(2)(optimize(network()))
    assert len(BACKENDS) == 0 and relay.structural_equal(with_backends["main"], without["main"])


def test_patterns_are_fused_before_a_kernel_is_picked_and_nothing_is_fused_after(backend):
    pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))
    backend("toyfuse", [], [PatternEntry("toyfuse.conv2d_relu", pattern)])
    recorder = Recorder()
    with PassContext(opt_level=3, instruments=[recorder]):
        plan = make_plan(optimize(network()), ["toyfuse"])
        before = len(recorder.names)
        units = [
            PlacementUnit(d.operator, dict(d.verdicts), ("float32",) * 2, ("float32",), nodes=d.nodes)
            for d in plan.decisions
        ]
        placed = score_places(units, ["toyfuse", "host"], KernelRegistry())
    assert len(recorder.names) == before  # picking runs no pass at all
    last_fusion = max(n for n, name in enumerate(recorder.names) if name == "MergeComposite")
    assert last_fusion < recorder.names.index("PartitionGraph")
    assert {u.operator: p.place.target for u, p in zip(units, placed, strict=True)} == {
        "toyfuse.conv2d_relu": "toyfuse",
        "multiply": "host",
        "tanh": "host",
    }


def spaces(layout):
    """The program of a convolution in *layout*, and what there is to tune about it."""
    shapes = {"NCHW": ((1, 8, 8, 8), (8, 8, 3, 3), "OIHW"), "NHWC": ((1, 8, 8, 8), (3, 3, 8, 8), "HWIO")}
    data, weight, kernel_layout = shapes[layout]
    x, w = relay.var("x", shape=data), relay.var("w", shape=weight)
    body = op.nn.conv2d(
        x, w, padding=(1, 1), kernel_size=(3, 3), channels=8, data_layout=layout, kernel_layout=kernel_layout
    )
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x, w], body)))
    program = lower_function(fuse_body(mod["main"]), "f")
    asked = SpaceCollector()
    prepare(program, MACHINE, asked, DIRECT)
    return program, list(asked.spaces.values())


def test_what_is_tuned_is_known_by_its_layout():
    kernels = {layout: {q.kernel for q in spaces(layout)[1]} for layout in ("NCHW", "NHWC")}
    assert kernels["NCHW"] and kernels["NHWC"] and not kernels["NCHW"] & kernels["NHWC"]


def borders(program):
    return [(t.dtype, tuple(map(str, t.shape))) for t in (*program.inputs, *program.outputs)]


def test_tuning_never_changes_what_enters_and_leaves():
    for layout in ("NCHW", "NHWC"):
        program, asked = spaces(layout)
        for space in asked:
            for _, choice in space.ranked[:12]:
                made = prepare(program, MACHINE, Fixed({space.kernel: choice}), DIRECT)
                assert borders(made) == borders(program)
