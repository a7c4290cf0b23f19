"""Proposals of control flow: If, with a condition that is an input, a constant, or computed; branches of any nodes.

Loop and Scan are not drawn: the importer refuses both in one sentence, whatever stands in them.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from fuzz.generators.draft import Draft, NotApplicable, Proposal, proposals

PROPOSALS: list[Proposal] = []
proposal = proposals(PROPOSALS)
SAME_TYPE = ("Neg", "Abs", "Identity", "Sign", "Relu")


def condition(d: Draft) -> str:
    """A bool of no dimension or of one element: a constant, an input, or a value of the model that has one."""
    how = d.rng.random()
    if how < 0.25:
        return d.weight(np.array(d.rng.random() < 0.5))
    if how < 0.5:
        d.add_input(d.rng.choice(((), (1,))), "bool", False)
        return d.made[-1]
    a = d.pick(("float32", "int64"), where=lambda n: 0 not in d.shape(n))
    (total,) = d.add("ReduceMax", [a], keepdims=0)
    (is_large,) = d.add("Greater", [total, d.weight(np.array(1, d.dtype(a)))])
    return is_large


def branch(d: Draft, name: str, a: str, outputs: int) -> helper.GraphProto:
    """A subgraph that reads *a* from outside, with a constant of its own."""
    nodes: list[NodeProto] = []
    results = []
    own = d.random_array([1], d.dtype(a))
    for k in range(outputs):
        value = a
        for step in range(d.rng.randrange(1, 3)):
            made = f"{name}_{k}_{step}"
            if d.rng.random() < 0.5 and d.dtype(a) != "bool":
                nodes.append(helper.make_node(d.rng.choice(("Add", "Mul")), [value, f"{name}_own"], [made]))
            else:
                nodes.append(helper.make_node(d.rng.choice(SAME_TYPE[:3]), [value], [made]))
            value = made
        results.append(helper.make_empty_tensor_value_info(value))
    elem = helper.np_dtype_to_tensor_dtype(own.dtype)
    typed = [helper.make_tensor_value_info(r.name, elem, None) for r in results]
    return helper.make_graph(nodes, name, [], typed, [numpy_helper.from_array(own, f"{name}_own")])


@proposal(1)
def if_(d: Draft) -> None:
    a = d.pick(("float32", "float64", "int32", "int64"), where=lambda n: len(d.shape(n)) > 0)
    number = d.rng.choice((1, 1, 2))
    test, tag = condition(d), len(d.nodes)
    if d.value(test).size != 1:
        raise NotApplicable
    then, other = branch(d, f"then{tag}", a, number), branch(d, f"else{tag}", a, number)
    names = [f"t{tag}_{k}" for k in range(number)]
    d.add_node(helper.make_node("If", [test], names, f"If_{tag}", then_branch=then, else_branch=other))
