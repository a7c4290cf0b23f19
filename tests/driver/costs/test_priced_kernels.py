"""The kernels that the cost model prices are those that compiling makes: as many, and call by call of the same origins.

Each share of a cut is priced as it is compiled: the host's through the host's stage, a region's by its generator.
"""

from __future__ import annotations

import pathlib
from collections import Counter

import numpy as np
import onnx.parser
import pytest

from byoc.codegen.json.backend import compile_functions
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.driver.compiler.module_plan import plan_module
from byoc.driver.host import lower_host
from byoc.driver.model import module_of
from byoc.driver.pipeline import optimize, prepare_host
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.partition.calls import known_names
from byoc.partition.costs import AnalyticModel
from byoc.partition.costs.model import HOST, inner_calls, unit_calls
from byoc.partition.costs.share import producers
from byoc.partition.options import PlacingOptions
from byoc.relay.expr import Call
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.fuse.join_groups import is_group
from byoc.relay.traverse import post_order

ROOT = pathlib.Path(__file__).parents[3]
SHARED = ROOT.parent / "shared" / "models"
HEAD = '<ir_version: 8, opset_import: ["" : 17]>'

SMALL = {
    # the bias and the rectifier in the product's kernel, views to the classifier, the softmax by itself
    "classifier": f"""{HEAD} g (float[1, 8, 12, 12] x) => (float[1, 5] y)
        <float[16, 8, 3, 3] w = {{}}, float[16] b = {{}}, float[1600, 5] d = {{}}, float[5] e = {{}}> {{
        [conv] a = Conv(x, w, b)
        [relu] r = Relu(a)
        [order] t = Transpose<perm = [0, 2, 3, 1]>(r)
        [flat] f = Flatten(t)
        [gemm] p = Gemm(f, d, e)
        [softmax] y = Softmax(p)
    }}""",
    # two products of batches with a softmax between them; a scale that weights take up
    "attention": f"""{HEAD} g (float[6, 8] x) => (float[6, 8] y)
        <float[8, 8] wq = {{}}, float[8, 8] wk = {{}}, float[8, 8] wv = {{}}, int64[3] heads = {{6, 2, 4}},
         int64[2] whole = {{6, 8}}, float half = {{0.5}}> {{
        [q] q = MatMul(x, wq)
        [k] k = MatMul(x, wk)
        [v] v = MatMul(x, wv)
        [q3] q3 = Reshape(q, heads)
        [k3] k3 = Reshape(k, heads)
        [v3] v3 = Reshape(v, heads)
        [qt] qt = Transpose<perm = [1, 0, 2]>(q3)
        [kt] kt = Transpose<perm = [1, 2, 0]>(k3)
        [vt] vt = Transpose<perm = [1, 0, 2]>(v3)
        [scores] s = MatMul(qt, kt)
        [scale] z = Mul(s, half)
        [weights] p = Softmax<axis = -1>(z)
        [mixed] m = MatMul(p, vt)
        [back] mt = Transpose<perm = [1, 0, 2]>(m)
        [joined] o = Reshape(mt, whole)
        [sum] y = Add(o, x)
    }}""",
    # a result of the model in the middle of what would be one kernel; two readers of one value; parts of a split
    "results": f"""{HEAD} g (float[4, 8] x) => (float[4, 8] r, float[4, 8] y, float[4, 4] z) {{
        [exp] e = Exp(x)
        [relu] r = Relu(e)
        [tanh] t = Tanh(r)
        [abs] a = Abs(r)
        [add] y = Add(t, a)
        [split] left, right = Split<axis = 1>(y)
        [mul] z = Mul(left, right)
    }}""",
    # quantized operators, which the host lowers before it fuses
    "quantized": f"""{HEAD} g (float[1, 4, 8, 8] x) => (float[1, 6, 6, 6] y)
        <int8[6, 4, 3, 3] w = {{}}, float s = {{0.02}}, uint8 z = {{128}}, float ws = {{0.01}}, int8 wz = {{0}}> {{
        [q] a = QuantizeLinear(x, s, z)
        [d] f = DequantizeLinear(a, s, z)
        [dw] g = DequantizeLinear(w, ws, wz)
        [conv] c = Conv(f, g)
        [q2] b = QuantizeLinear(c, s, z)
        [d2] y = DequantizeLinear(b, s, z)
    }}""",
    # no code is generated for the sort, which stands between two kernels
    "sorted": f"""{HEAD} g (float[4, 8] x) => (float[4, 8] y) <int64[1] k = {{8}}> {{
        [neg] n = Neg(x)
        [sqrt] a = Abs(n)
        [top] v, i = TopK<axis = 1>(a, k)
        [exp] e = Exp(v)
        [mean] m = ReduceMean<axes = [1]>(e)
        [sub] y = Sub(e, m)
    }}""",
}
MODELS = [*SMALL, "mnist", "face_rfb_320", "style_candy"]


def model_of(name):
    """The module of one of ``MODELS``, simplified; weights without values are random, the same each time."""
    if name not in SMALL:
        path = SHARED / f"{name}.onnx"
        if not path.is_file():
            pytest.skip(f"{path} is not here")
        return optimize(module_of(path, None))
    proto = onnx.parser.parse_model(SMALL[name])
    rng = np.random.default_rng(0)
    for weight in proto.graph.initializer:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(weight.data_type)
        if not any(getattr(weight, field) for field in ("float_data", "int32_data", "int64_data")):
            values = rng.integers(-9, 9, tuple(weight.dims)) if dtype == np.int8 else rng.standard_normal(weight.dims)
            weight.CopyFrom(onnx.numpy_helper.from_array(values.astype(dtype), weight.name))
    return optimize(module_of(proto.SerializeToString(), None))


def member(call):
    """What is compared of a call in a kernel: its operator and the ONNX nodes that it comes from."""
    return call.op.name, span_names(call.span)


def priced(function, target):
    """The kernels that the cost model has for a share: of its operators, and of each composite one."""
    calls = unit_calls(function)
    leaving = set(producers(function.body))
    leaving |= {
        p
        for node in post_order(function.body, fusion_children)
        if isinstance(node, Call) and node not in calls
        for arg in node.args
        for p in producers(arg)
    }
    kernels = AnalyticModel().kernels(calls, leaving, target)
    found = Counter(tuple(member(s.call) for s in k.steps) for k in kernels)
    found.update(tuple(map(member, inner_calls(call))) for call in calls if not isinstance(call.op, Op))
    return found


def members(function):
    """The groups in a fused function: of primitive ones, and of composites, each with its calls."""
    nodes = [n for n in post_order(function.body, fusion_children) if isinstance(n, Call)]
    return Counter(tuple(map(member, inner_calls(n))) for n in nodes if is_group(n) or _is_composite(n))


def _is_composite(call):
    return "Composite" in getattr(call.op, "attrs", {})


def check_host(cut, regions):
    """The host's share: each group is a step of the library's graph."""
    main = prepare_host()(cut)["main"]
    assert priced(cut["main"], HOST) == members(main)
    symbols = {str(region.attrs["global_symbol"]) for region in regions.values()}
    steps = [n["attrs"]["func_name"] for n in lower_host(main, regions).graph["nodes"] if n["op"] != "null"]
    own = [step for step in steps if step not in symbols and "constant" not in step]
    assert len(own) == members(main).total()


def check_region(region):
    """A region: the groups of the program that is written in C or OpenCL, or the nodes of the JSON graph."""
    target = str(region.attrs["Compiler"])
    kernels = priced(region, target)
    if target == "json":
        (graph,) = compile_functions({"region": region}).graphs.values()
        run = Counter(node["name"] for node in graph["nodes"] if node["op"] == "kernel")
        assert set(map(len, kernels)) == {1} and Counter(k[0][0] for k in kernels.elements()) == run
        return
    fused = fuse_body(region)
    assert kernels == members(fused)
    groups = lower_function(fused, "region").groups
    assert Counter(map(origins_of, kernels.elements())) == Counter(frozenset(g.origin) for g in groups)


def origins_of(kernel):
    return frozenset(name for _, names in kernel for name in names)


APART = ["nn.relu", "concatenate", "nn.instance_norm", "nn.softmax", "exp", "nn.batch_matmul"]  # left to the host
CUTS = {
    "the host alone": (["c"], {}),
    "opencl": (["opencl", "c"], {}),
    "opencl in parts": (["opencl", "c"], {"exclude": APART}),
    "opencl by cost": (["opencl", "c"], {"policy": "cost", "costs": "typical"}),
    "json in parts": (["json", "c"], {"exclude": APART}),
    "json by cost": (["json", "c"], {"policy": "cost", "costs": "typical"}),
    "regions of c": (["c", "host"], {"exclude": APART}),
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", MODELS)
def test_the_kernels_that_are_priced_are_those_that_are_made(name, cut):
    mod = model_of(name)
    targets, options = CUTS[cut]
    known = known_names(mod)
    given = {**options, "exclude": [op for op in options.get("exclude", ()) if op in known]}
    made = plan_module(mod, targets, PlacingOptions(**given)).apply(mod)
    regions = {v: f for v, f in made.functions.items() if f.attrs.get("Compiler")}
    check_host(made, regions)
    for region in regions.values():
        check_region(region)
