"""A plan as an ONNX model to look at: each region a function of the model, called in its place.

Nodes that were computed or folded away when the model was simplified belong to a region where all that reads them, or
all that they read, is in it. A node whose operators the plan divides (a convolution and its bias) is where the first of
them that is in a region is. Requires nothing of the viewer: the result is a valid model that computes the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, helper

from byoc.partition.plan.plan import Plan
from byoc.relay.frontend.onnx.named_nodes import named_nodes

DOMAIN = "byoc"
FIRST_IR_VERSION = 10  # functions that models bring


def with_regions(model: ModelProto, plan: Plan) -> tuple[ModelProto, list[str]]:
    """A copy of *model* in which each region of *plan* is a function of the domain ``byoc.<target>``.

    Also a sentence for each region that the model's own graph cannot hold together (simplification may join what stands
    apart there, so that a region becomes several functions), for the nodes that are divided between places, and for
    each region that has no node of its own.
    """
    names = [n.name for n in named_nodes(model)]
    graph = _Graph(model.graph)
    known, divided = _regions_of_nodes(plan, names)
    region = _absorbed(graph, known)
    parts, notes = _lawful(graph, region, plan)
    if divided:
        notes.append(
            f"{len(divided)} nodes have operators at several places, and stand where the first that is in a region is: "
            f"{', '.join(divided)}"
        )
    for number in sorted(set(range(len(plan.regions))) - set(region.values())):
        owned = ", ".join(plan.regions[number].nodes) or ", ".join(plan.regions[number].operators)
        notes.append(f"{plan.regions[number].symbol} is no function: no node is whole in it, only parts of {owned}")
    result = ModelProto()
    result.CopyFrom(model)
    result.ir_version = max(result.ir_version, FIRST_IR_VERSION)
    del result.graph.node[:]
    opsets = list(model.opset_import)
    placed: dict[int, NodeProto] = {}
    for number, (members, symbol, target) in enumerate(parts):
        domain = f"{DOMAIN}.{target}"
        function, call = _outlined(graph, members, symbol, domain, opsets)
        result.functions.append(function)
        placed[number] = call
        if domain not in {o.domain for o in result.opset_import}:
            result.opset_import.append(helper.make_opsetid(domain, 1))
    part_of = {node: k for k, (members, _, _) in enumerate(parts) for node in members}
    result.graph.node.extend(_ordered(graph, part_of, placed))
    return result, notes


def _regions_of_nodes(plan: Plan, names: Sequence[str]) -> tuple[dict[int, int], list[str]]:
    """The region (its place in the plan, -1 is home) of each node that the plan knows, by number; and the names of the
    nodes that it divides.
    """
    owner: dict[str, dict[int, None]] = {}
    number_of = {r.symbol: k for k, r in enumerate(plan.regions)}
    for decision, symbol in zip(plan.decisions, plan.symbols(), strict=True):
        for node in decision.nodes:
            owner.setdefault(node, {})[number_of.get(symbol, -1)] = None
    found: dict[int, int] = {}
    for number, name in enumerate(names):
        if name in owner:
            found[number] = next((region for region in owner[name] if region >= 0), -1)
    return found, [name for name in names if len(owner.get(name, ())) > 1]


class _Graph:
    """The nodes of a graph, what makes and what reads each value."""

    def __init__(self, graph: GraphProto):
        self.nodes = list(graph.node)
        self.made = {name: k for k, node in enumerate(self.nodes) for name in node.output if name}
        self.readers: dict[str, list[int]] = {}
        for k, node in enumerate(self.nodes):
            for name in dict.fromkeys(reads(node)):
                self.readers.setdefault(name, []).append(k)
        self.results = {o.name for o in graph.output}

    def before(self, node: int) -> set[int]:
        """The nodes that *node* reads."""
        return {self.made[name] for name in reads(self.nodes[node]) if name in self.made}

    def after(self, node: int) -> set[int]:
        """The nodes that read *node*."""
        return {reader for name in self.nodes[node].output for reader in self.readers.get(name, ())}

    def captures(self, node: int) -> bool:
        """Whether a node has a body of its own, which may read anything around it."""
        return any(a.HasField("g") or a.graphs for a in self.nodes[node].attribute)


def reads(node: NodeProto) -> list[str]:
    """The values that *node* reads, those of its bodies among them."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            inner = {i.name for i in body.input} | {o for n in body.node for o in n.output}
            inner |= {i.name for i in body.initializer}
            names += [name for n in body.node for name in reads(n) if name not in inner]
    return names


def _absorbed(graph: _Graph, known: Mapping[int, int]) -> dict[int, int]:
    """*known* and the nodes that no decision is about, each in the region that all its readers, or sources, share."""
    region = {n: r for n, r in known.items() if not graph.captures(n)}
    forwards = range(len(graph.nodes))
    for order, neighbours in ((reversed(forwards), graph.after), (forwards, graph.before)):
        for node in order:
            if node in known or node in region or graph.captures(node):
                continue
            around = {region.get(n, -1) for n in neighbours(node)}
            if len(around) == 1 and not (set(graph.nodes[node].output) & graph.results and neighbours == graph.after):
                region[node] = around.pop()
    return {n: r for n, r in region.items() if r >= 0}


def _lawful(graph: _Graph, region: Mapping[int, int], plan: Plan) -> tuple[list[tuple[list[int], str, str]], list[str]]:
    """The regions as parts that can run one after another: nodes, name, target; a part a run where one cannot."""
    level: dict[int, int] = {}
    for node in range(len(graph.nodes)):  # ONNX nodes stand in topological order
        mine = region.get(node)
        level[node] = max((level[b] + (region.get(b) != mine or mine is None) for b in graph.before(node)), default=0)
    groups: dict[tuple[int, int], list[int]] = {}
    for node, number in region.items():
        groups.setdefault((number, level[node]), []).append(node)
    whole: dict[int, list[list[int]]] = {}
    for (number, _), members in sorted(groups.items()):
        whole.setdefault(number, []).append(sorted(members))
    parts: list[tuple[list[int], str, str]] = []
    notes: list[str] = []
    taken: set[int] = set()
    for number, pieces in sorted(whole.items()):
        planned = plan.regions[number]
        merged = sorted(n for piece in pieces for n in piece)
        if len(pieces) == 1 or not _circular(graph, [merged, *(m for m, _, _ in parts)]):
            pieces = [merged]
        for k, piece in enumerate(pieces):
            name = planned.symbol if len(pieces) == 1 else f"{planned.symbol}_part{k}"
            parts.append((piece, name, planned.target))
            taken.update(piece)
        if len(pieces) > 1:
            notes.append(f"{planned.symbol} is {len(pieces)} functions: the model's own nodes do not hold it together")
    return parts, notes


def _circular(graph: _Graph, groups: Iterable[Sequence[int]]) -> bool:
    """Whether *groups*, each one node, wait for one another."""
    owner = {node: f"g{k}" for k, members in enumerate(groups) for node in members}
    after: dict[object, set[object]] = {}
    waits: dict[object, int] = {}
    for node in range(len(graph.nodes)):
        mine = owner.get(node, node)
        waits.setdefault(mine, 0)
        for before in graph.before(node):
            other = owner.get(before, before)
            if other != mine and mine not in after.setdefault(other, set()):
                after[other].add(mine)
                waits[mine] += 1
    ready = [n for n, count in waits.items() if count == 0]
    done = 0
    while ready:
        done += 1
        for later in after.get(ready.pop(), ()):
            waits[later] -= 1
            if waits[later] == 0:
                ready.append(later)
    return done < len(waits)


def _outlined(
    graph: _Graph, members: Sequence[int], symbol: str, domain: str, opsets: Sequence[OperatorSetIdProto]
) -> tuple[FunctionProto, NodeProto]:
    """The function of *members*, and the node that calls it. Weights are inputs, since functions hold none."""
    inside = set(members)
    nodes = [graph.nodes[n] for n in members]
    made = {name for node in nodes for name in node.output if name}
    inputs = list(dict.fromkeys(name for node in nodes for name in reads(node) if name not in made))
    outputs = [
        name
        for node in nodes
        for name in node.output
        if name and (name in graph.results or any(r not in inside for r in graph.readers.get(name, ())))
    ]
    function = helper.make_function(domain, symbol, inputs, outputs, nodes, list(opsets))
    return function, helper.make_node(symbol, inputs, outputs, name=symbol, domain=domain)


def _ordered(graph: _Graph, part_of: Mapping[int, int], calls: Mapping[int, NodeProto]) -> list[NodeProto]:
    """The nodes of the new graph, each after what it reads."""
    units: dict[object, NodeProto] = {}
    made: dict[str, object] = {}
    for number, node in enumerate(graph.nodes):
        key: object = ("part", part_of[number]) if number in part_of else number
        units[key] = calls[part_of[number]] if number in part_of else node
        for name in node.output:
            made[name] = key
    done: dict[object, NodeProto] = {}
    for start in units:
        stack = [start]
        while stack:
            top = stack[-1]
            waiting = (
                [made[n] for n in reads(units[top]) if n in made and made[n] not in done and made[n] != top]
                if top not in done
                else []
            )
            if waiting:
                stack += waiting
            else:
                done[top] = units[stack.pop()]
    return list(done.values())
