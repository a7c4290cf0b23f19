"""Types over a whole graph, and as few casts as can be where they conflict."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from cast_program import CastProgram, convert_array
from place_graphs import AT_HOME, chain, fan, random_graph, unary

from byoc.errors import PartitionError
from byoc.partition.place import ANY, IMAGES, DataLayout, Place
from byoc.partition.places.cast_rules import DEFAULT_RULES, CastRule, CastRules, State
from byoc.partition.places.graph import Operator, PlacedTensor, PlaceGraph
from byoc.partition.places.infer import demand, insert_casts
from byoc.partition.places.kernel import KernelRegistry, register_kernel
from byoc.partition.places.tensor_type import TensorTy, conflicts, settled

OPENCL, CUDA, HOST = TensorTy("opencl"), TensorTy("cuda"), TensorTy("host")


def kinds(casting):
    return [c.kind for c in casting.casts]


# an independent count: breadth-first search over sets of states that are there


def reachable_steps(rules, source, x, y):
    """Whether one cast leads from x to y, by the text of the rules."""
    differ = [(x.target, x.device) != (y.target, y.device), x.precision != y.precision, x.layout != y.layout]
    if sum(differ) != 1 or (y.layout in IMAGES and y.target == "host"):
        return False
    if differ[1] and x.precision != source.precision:
        return False
    kind = ("target", "precision", "layout")[differ.index(True)]

    def is_at(ty, state):
        target = "host" if ty.target in ("arm", "x86", "c", "host") else ty.target
        return (
            target in ("any", state.target)
            and ty.precision in ("any", state.precision)
            and ty.layout in ("any", state.layout)
        )

    return any(r.kind == kind and is_at(r.source, x) and is_at(r.destination, y) for r in rules)


def brute_force_count(rules, source, groups):
    """The least number of casts after which each of *groups* has a state that is there; None where there is none."""
    ends = [source, *(s for g in groups for s in g)]
    named = {(t.target, 0) for r in rules for t in (r.source, r.destination)} - {("any", 0)}
    spaces = {(s.target, s.device) for s in ends} | named
    states = {
        State(t, d, p, y)
        for (t, d), p, y in itertools.product(spaces, {s.precision for s in ends}, {s.layout for s in ends})
    }
    step = {x: [y for y in sorted(states) if reachable_steps(rules, source, x, y)] for x in states}
    frontier, seen = {frozenset([source])}, set()
    for count in range(len(states) + 1):
        if any(all(any(s in there for s in g) for g in groups) for there in frontier):
            return count
        seen |= frontier
        frontier = {there | {y} for there in frontier for x in there for y in step[x] if y not in there} - seen
        if not frontier:
            return None
    return None


def independent_count(casting, rules):
    """Casts that a graph needs for the types that its tensors have, tensor by tensor."""
    graph, total = casting.graph, 0
    for tensor, of in enumerate(graph.tensors):
        groups = set()
        for operator in graph.operators:
            for name, read in operator.inputs:
                if read == tensor:
                    wanted = demand(operator.kernel, name, of.precision, operator)
                    groups.add(tuple(map(State.of, settled(wanted, casting.types[tensor], of.rank))))
        for read, wanted in graph.results:
            if read == tensor:
                groups.add(tuple(map(State.of, settled(wanted, casting.types[tensor], of.rank))))
        total += brute_force_count(rules, State.of(casting.types[tensor]), sorted(groups))
    return total


def random_kernels(rng, layouts=("NCHW", "NHWC")):
    registry = KernelRegistry()
    targets, precisions = ("host", "opencl", "cuda"), ("float", "fp16")
    kernels = []
    for n in range(8):
        place = Place(rng.choice(targets), rng.choice((*precisions, "any")), rng.choice((*layouts, "any")))
        builder = register_kernel(f"op{n}", place, registry=registry)
        builder.bind_input("X")
        builder.bind_input("Y", target=rng.choice(targets) if rng.random() < 0.3 else place.target)
        kernels.append(builder.bind_output("Out").finalize())
    return kernels


def check_random_graphs(count, seed, size):
    rng = random.Random(seed)
    seen = 0
    for _ in range(count):
        graph = random_graph(rng, random_kernels(rng), rng.randint(1, size))
        casting = insert_casts(graph)
        casting.check()
        assert casting.exact and len(casting.casts) == independent_count(casting, DEFAULT_RULES)
        assert_lawful(casting)
        seen += len(casting.casts)
    assert seen > 3 * count


def assert_lawful(casting):
    """Every cast changes one thing, of what is there; no two make the same of one tensor; all are used."""
    made = set()
    for number, cast in enumerate(casting.casts):
        source = State.of(casting.types[cast.tensor]) if cast.reads is None else casting.casts[cast.reads].destination
        assert cast.reads is None or (cast.reads < number and casting.casts[cast.reads].tensor == cast.tensor)
        assert source == cast.source and (cast.tensor, cast.destination) not in made
        assert cast.once == casting.graph.tensors[cast.tensor].constant
        made.add((cast.tensor, cast.destination))
    used = {*casting.reads.values(), *casting.results.values(), *(c.reads for c in casting.casts)}
    assert set(range(len(casting.casts))) <= used


def test_casts_are_minimal_on_random_graphs_by_an_independent_count():
    check_random_graphs(120, 13, 6)


@pytest.mark.slow
def test_casts_are_minimal_on_10000_random_graphs():
    check_random_graphs(10_000, 131, 8)


@pytest.mark.parametrize("layouts", [("NCHW", "NHWC"), ("NCHW", "NHWC", "ImageDefault")])
def test_the_casts_of_one_tensor_are_minimal_under_random_rules(layouts):
    rng = random.Random(31)
    possible = impossible = 0
    for _ in range(250):

        def state():
            target = rng.choice(("host", "opencl", "cuda"))
            plain = [y for y in layouts if target != "host" or y not in IMAGES]
            return State(target, 0, rng.choice(("float", "fp16")), rng.choice(plain))

        wild = ("host", "opencl", "cuda", ANY)
        rules = tuple(
            CastRule(
                rng.choice(("target", "precision", "layout")),
                TensorTy(rng.choice(wild), ANY, ANY),
                TensorTy(rng.choice(wild), ANY, ANY),
            )
            for _ in range(rng.randint(3, 10))
        )
        source, groups = (
            state(),
            sorted({tuple({state(): None for _ in range(rng.choice((1, 1, 2)))}) for _ in range(rng.randint(1, 3))}),
        )
        expected = brute_force_count(rules, source, groups)
        if expected is None:
            impossible += 1
            with pytest.raises(PartitionError, match="there is no cast"):
                CastRules(rules).fewest(source, groups)
        else:
            possible += 1
            steps = CastRules(rules).fewest(source, groups)
            assert len(steps) == expected
    assert possible > 30 and impossible > 30


def test_a_fan_out_to_three_targets_gives_each_reader_its_own_copy(registry):
    source = unary(registry, "source", "host")
    on = {t: unary(registry, f"on_{t}", t) for t in ("opencl", "cuda", "host")}
    readers = [on[t] for t in ("opencl", "cuda", "host", "opencl", "cuda")]
    graph = fan(source, readers)
    graph = replace(graph, tensors=tuple(replace(t, name="v") for t in graph.tensors))  # names do not distinguish them
    casting = insert_casts(graph)
    assert kinds(casting) == ["target", "target"]
    assert [casting.state_read(n, 0).target for n in range(1, 6)] == ["opencl", "cuda", "host", "opencl", "cuda"]
    assert casting.reads[1, 0] == casting.reads[4, 0] != casting.reads[2, 0] == casting.reads[5, 0]


def test_two_devices_of_one_target_have_copies_of_their_own(registry):
    first, second = unary(registry, "a", "opencl"), unary(registry, "b", Place("opencl", device=1))
    casting = insert_casts(fan(first, [second, first]))
    assert kinds(casting) == ["target", "target"]  # through the host
    assert casting.state_read(1, 0).device == 1 and casting.state_read(2, 0).device == 0


def test_three_readers_of_one_tensor_share_one_transform(registry):
    source, reader = unary(registry, "source", "host"), unary(registry, "nhwc", "host/float/NHWC")
    casting = insert_casts(fan(source, [reader] * 3))
    assert kinds(casting) == ["layout"] and len({casting.reads[n, 0] for n in (1, 2, 3)}) == 1


def test_a_chain_in_one_layout_is_transformed_at_its_ends_alone(registry):
    nhwc = unary(registry, "nhwc", "host/float/NHWC")
    assert kinds(insert_casts(chain([nhwc] * 5))) == ["layout", "layout"]


def test_any_layout_between_is_no_reason_for_a_transform(registry):
    nhwc, free = unary(registry, "nhwc", "host/float/NHWC"), unary(registry, "free", "host/float/any")
    casting = insert_casts(chain([nhwc, free, free, nhwc]))
    assert kinds(casting) == ["layout", "layout"] and casting.types[2].layout == DataLayout.NHWC


def test_a_diamond_transforms_once_for_both_sides_and_once_back(registry):
    nhwc, host = unary(registry, "nhwc", "host/float/NHWC"), unary(registry, "host", "host")
    join = register_kernel("join", "host", registry=registry).bind_input("X").bind_input("Y").finalize()
    tensors = tuple(PlacedTensor(f"t{n}") for n in range(5))
    graph = PlaceGraph(
        tensors,
        (
            Operator("host", (("X", 0),), (("Out", 1),), kernel=host),
            Operator("nhwc", (("X", 1),), (("Out", 2),), kernel=nhwc),
            Operator("nhwc", (("X", 1),), (("Out", 3),), kernel=nhwc),
            Operator("join", (("X", 2), ("Y", 3)), (("Out", 4),), kernel=join),
        ),
        {},
        ((4, AT_HOME),),
    )
    casting = insert_casts(graph)
    assert [(c.kind, c.tensor) for c in casting.casts] == [("layout", 1), ("layout", 2), ("layout", 3)]


def test_one_copy_serves_readers_in_two_layouts_and_fp16_is_copied_as_fp16(registry):
    source = unary(registry, "source", "host")
    readers = [unary(registry, "a", "opencl/fp16/NCHW"), unary(registry, "b", "opencl/fp16/NHWC")]
    casting = insert_casts(fan(source, readers))
    assert sorted(kinds(casting)) == ["layout", "precision", "target"]
    assert kinds(casting)[0] == "precision"  # of equally few casts those that move fewest bytes
    assert casting.report().bytes("target") == 24 * 2


@pytest.mark.parametrize(
    ("where", "order"),
    [
        ("host", ["precision", "target"]),
        ("opencl", ["target", "precision"]),
    ],
)
def test_a_precision_is_cast_where_there_is_a_kernel_for_it(registry, where, order):
    at = TensorTy(where, ANY, ANY)
    rules = CastRules((*DEFAULT_RULES[:2], CastRule("precision", at, at)))
    source, reader = unary(registry, "source", "host"), unary(registry, "reader", "opencl/fp16")
    assert kinds(insert_casts(fan(source, [reader]), rules)) == order


def test_an_image_is_made_on_its_device(registry):
    source, reader = unary(registry, "source", "host"), unary(registry, "reader", "opencl/fp16/ImageDefault")
    casting = insert_casts(fan(source, [reader]))
    assert kinds(casting).index("layout") > kinds(casting).index("target")
    buffers = unary(registry, "buffers", "opencl/fp16/any")
    casting = insert_casts(fan(reader, [buffers]))  # an image is no layout that every kernel reads
    assert [c.destination.layout for c in casting.casts if c.tensor == 1] == ["NCHW"]


def test_a_missing_cast_names_both_types_the_tensor_and_both_operators(registry):
    a, b = unary(registry, "a", "opencl"), unary(registry, "b", "cuda")
    rules = CastRules((CastRule("target", HOST, TensorTy("opencl", ANY, ANY)),))
    graph = chain([a, b], {0: OPENCL}, results=False)
    with pytest.raises(PartitionError) as error:
        insert_casts(graph, rules)
    expected = "there is no cast opencl/float/NCHW -> cuda/float/NCHW for t1 between a (op0) and b (op1)"
    assert expected in str(error.value)
    with pytest.raises(PartitionError, match="between the model's input and a"):
        insert_casts(chain([a], {0: CUDA}, results=False), rules)
    with pytest.raises(PartitionError, match="between a .op0. and the model's result"):
        insert_casts(chain([a], {0: OPENCL}), rules)


def test_numbers_that_are_no_floats_keep_their_precision(registry):
    place = "opencl/fp16"
    kernel = register_kernel("take", place, registry=registry).bind_input("X").bind_output("Out").finalize()
    tensors = (PlacedTensor("x"), PlacedTensor("indices", "int64", (3,)), PlacedTensor("y"))
    graph = PlaceGraph(tensors, (Operator("take", (("X", 0), ("Index", 1)), (("Out", 2),), kernel=kernel),), {})
    casting = insert_casts(graph)
    assert casting.state_read(0, 1).precision == "int64" and casting.state_read(0, 0).precision == "fp16"


def test_any_precision_follows_the_first_float_input(registry):
    half, free = unary(registry, "half", "host/fp16"), unary(registry, "free", "host/any")
    casting = insert_casts(chain([half, free, half]))
    assert casting.types[2].precision == "fp16" and kinds(casting) == ["precision", "precision"]


def test_int8_needs_a_scale_and_uses_it(registry):
    quantized = unary(registry, "q", "host/int8")
    graph = chain([quantized], results=False)
    with pytest.raises(PartitionError, match="no scale"):
        insert_casts(graph)
    scaled = replace(graph, tensors=tuple(replace(t, scale=0.5) for t in graph.tensors), results=((1, AT_HOME),))
    kernel = replace(quantized, run=lambda x: x)
    casting = insert_casts(replace(scaled, operators=(replace(scaled.operators[0], kernel=kernel),)))
    x = np.array([[0.2, 0.8, -100.0, 3.0]], dtype="float32")
    (y,) = CastProgram(casting, {}).run({0: x})
    assert y.tolist() == [[0.0, 1.0, -64.0, 3.0]] and y.dtype == np.float32


def test_weights_are_cast_once_in_100_runs():
    registry = KernelRegistry()
    half = (
        register_kernel("scale", "opencl/fp16/NHWC", registry=registry)
        .bind_input("X")
        .bind_input("W")
        .bind_output("Out")
        .finalize(lambda x, w: x * w)
    )
    shape = (1, 2, 3, 4)
    tensors = (
        PlacedTensor("x", shape=shape),
        PlacedTensor("w", shape=shape, constant=True),
        PlacedTensor("y"),
        PlacedTensor("z"),
    )
    graph = PlaceGraph(
        tensors,
        (
            Operator("scale", (("X", 0), ("W", 1)), (("Out", 2),), kernel=half),
            Operator("scale", (("X", 2), ("W", 1)), (("Out", 3),), kernel=half),
        ),
        {},
        ((3, AT_HOME),),
    )
    casting = insert_casts(graph)
    assert casting.report().count(once=True) == 3 and {c.operator for c in casting.casts if c.once} == {
        "io_copy_once",
        "calib_once",
        "layout_once",
    }
    converted = {}

    def convert(array, cast, tensor):
        converted[tensor.name] = converted.get(tensor.name, 0) + 1
        return convert_array(array, cast, tensor)

    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((1, 2, 3, 4)).astype("float32") for _ in range(2))
    program = CastProgram(casting, {1: w}, convert)
    for _ in range(100):
        (z,) = program.run({0: x})
    assert converted["w"] == 3 and converted["x"] == 300  # each of its casts once, and 3 in each run
    np.testing.assert_allclose(z, x * w * w, rtol=4e-3, atol=1e-3)


def test_a_graph_with_casts_computes_what_it_did_without():
    rng = random.Random(7)
    for _ in range(25):
        kernels = [
            replace(k, run=(lambda x, y=0.0: np.maximum(x + y, 0.5)) if n % 2 else (lambda x, y=1.0: x - y))
            for n, k in enumerate(random_kernels(rng))
        ]
        # both inputs of a kernel lie alike, so that their arrays can be added
        kernels = [
            replace(k, place=replace(k.place, layout="NHWC" if k.place.layout == "any" else k.place.layout))
            for k in kernels
        ]
        kernels = [
            replace(
                k,
                inputs={n: replace(t, layout=k.place.layout) for n, t in k.inputs.items()},
                outputs={"Out": TensorTy.at(k.place)},
            )
            for k in kernels
        ]
        graph = random_graph(rng, kernels, 6)
        values = np.random.default_rng(1)
        arrays = {n: values.standard_normal((1, 2, 3, 4)).astype("float32") for n in range(4)}
        found = CastProgram(insert_casts(graph), {n: arrays[n] for n in (0, 1)}).run({n: arrays[n] for n in (2, 3)})
        at_home = replace(
            graph,
            operators=tuple(
                replace(
                    o,
                    kernel=replace(
                        o.kernel, place=Place("host"), inputs={"X": AT_HOME, "Y": AT_HOME}, outputs={"Out": AT_HOME}
                    ),
                )
                for o in graph.operators
            ),
        )
        expected = CastProgram(insert_casts(at_home), {n: arrays[n] for n in (0, 1)}).run(
            {n: arrays[n] for n in (2, 3)}
        )
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-2)


def test_operators_without_kernels_and_kinds_that_differ_are_refused(registry):
    graph = chain([unary(registry, "a", "host")])
    with pytest.raises(PartitionError, match="has no kernel yet"):
        insert_casts(replace(graph, operators=tuple(replace(o, kernel=None) for o in graph.operators)))
    listed = unary(registry, "stack", "host", x=TensorTy("host", kind="TensorList"))
    with pytest.raises(PartitionError, match="takes a TensorList as X, and t0 is a Tensor"):
        insert_casts(chain([listed]))


def test_many_destinations_are_served_and_not_called_proven(registry):
    source = unary(registry, "source", "host")
    readers = [unary(registry, f"r{n}", Place("opencl", device=n)) for n in range(12)]
    casting = insert_casts(fan(source, readers))
    casting.check()
    assert len(casting.casts) == 12 and not casting.exact
    assert insert_casts(fan(source, readers[:8])).exact


def test_a_chain_that_leaves_opencl_for_one_operator_reports_two_copies(registry):
    a, b, c = unary(registry, "a", "opencl"), unary(registry, "b", "arm"), unary(registry, "c", "opencl")
    report = insert_casts(chain([a, b, c], {0: OPENCL}, results=False)).report()
    assert (report.count("target"), report.bytes("target")) == (2, 2 * 24 * 4)
    from_home = insert_casts(chain([a, b, c])).report()
    assert from_home.count("target") == 4 and from_home.count("target", between=True) == 2
    assert "4 copies of 384 bytes a run (2 between operators)" in str(from_home)


def test_targets_that_share_the_hosts_memory_need_no_copies(registry):
    kernels = [unary(registry, t, t) for t in ("arm", "x86", "host")]
    assert insert_casts(chain(kernels)).casts == ()


def test_conflicts_are_gone_afterwards(registry):
    a, b = unary(registry, "a", "opencl/fp16/NHWC"), unary(registry, "b", "cuda")
    casting = insert_casts(chain([a, b]))
    casting.check()
    wanted = b.input_type("X")
    assert conflicts(casting.types[1], wanted) == ("target", "precision", "layout")
    assert casting.state_read(1, 0) == State.of(wanted) and casting.casts[casting.results[0]].destination == State.of(
        AT_HOME
    )
