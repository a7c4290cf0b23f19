"""Damage to a model, by structure and by bytes. Every mutation takes its choices from one generator of random numbers.

By structure: a field anywhere in the ModelProto, found by its descriptor and not by name, gets a value of its kind that
is odd; elements of repeated fields are left out, doubled and swapped; a message takes the place of another of its
kind, of this model or of the *other*. So attributes of other kinds, sizes, element types, lengths of data, operator
sets, sparse tensors and types of sequences are all reached. By bytes: flips, cuts and splices of what protobuf writes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import AttributeProto, ModelProto, TensorProto, TypeProto

INTS = [0, 1, -1, 2, 3, 7, 64, 65, 127, 255, 2**15, 2**31 - 1, -(2**31), 2**31, 2**40, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, float("inf"), float("-inf"), float("nan")]
TEXTS = ["", "x", "y", "a/b", "..", "\0", "\n", '"', "*/", "%s", "ß", "名前", "x" * 300, "int", "main", "If", "ai.onnx"]
BYTES = [b"", b"\0", b"\xff\xfe", b"linear", b"SAME_UPPER", b"x" * 7]
_INTEGERS = {
    FieldDescriptor.TYPE_INT32: 32,
    FieldDescriptor.TYPE_INT64: 64,
    FieldDescriptor.TYPE_UINT64: -64,
    FieldDescriptor.TYPE_ENUM: 32,
}


def messages(root: Message) -> Iterator[Message]:
    """*root* and every message below it."""
    stack = [root]
    while stack:
        message = stack.pop()
        yield message
        for field, value in message.ListFields():
            if field.message_type is not None:
                stack.extend(value if field.is_repeated else [value])


def odd_value(rng: random.Random, field: FieldDescriptor) -> object:
    """A value of the kind of *field* that a program does not expect."""
    if field.type in _INTEGERS:
        bits = _INTEGERS[field.type]
        value = rng.choice(INTS) if rng.random() < 0.7 else rng.randrange(32)
        if field.type == FieldDescriptor.TYPE_ENUM:
            return rng.choice(field.enum_type.values).number
        low, high = (0, 2**64 - 1) if bits < 0 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return min(max(value, low), high)
    if field.type == FieldDescriptor.TYPE_STRING:
        return rng.choice(TEXTS)
    return rng.choice(BYTES) if field.type == FieldDescriptor.TYPE_BYTES else rng.choice(FLOATS)


def _change_a_field(rng: random.Random, model: ModelProto, other: ModelProto) -> None:
    message = rng.choice(list(messages(model)))
    present = [f for f, _ in message.ListFields()]
    fields = present if present and rng.random() < 0.8 else list(message.DESCRIPTOR.fields)
    field = rng.choice(fields)
    if field.message_type is not None:
        if not field.is_repeated and rng.random() < 0.3:
            getattr(message, field.name).SetInParent()
        return
    value = odd_value(rng, field)
    if not field.is_repeated:
        setattr(message, field.name, value)
        return
    values = getattr(message, field.name)
    if len(values) and rng.random() < 0.7:
        values[rng.randrange(len(values))] = value
    else:
        values.append(value)


def _change_a_list(rng: random.Random, model: ModelProto, other: ModelProto) -> None:
    """Leave out, double or swap elements of a repeated field."""
    lists = [(m, f) for m in messages(model) for f, v in m.ListFields() if f.is_repeated]
    message, field = rng.choice(lists)
    values = getattr(message, field.name)
    kept = list(values)
    action = rng.randrange(3)
    if action == 0:
        del kept[rng.randrange(len(kept))]
    elif action == 1:
        kept.insert(rng.randrange(len(kept) + 1), rng.choice(kept))
    else:
        rng.shuffle(kept)
    copies = []
    for value in kept:
        if isinstance(value, Message):
            copy = type(value)()
            copy.CopyFrom(value)
            value = copy
        copies.append(value)
    del values[:]
    values.extend(copies)


def _graft(rng: random.Random, model: ModelProto, other: ModelProto) -> None:
    """A message becomes a copy of another of its kind; wires of one model in the other are connected by chance."""
    targets = [m for m in messages(model) if not isinstance(m, ModelProto)]
    target = rng.choice(targets)
    kind = target.DESCRIPTOR.full_name
    pool = [m for m in messages(other if rng.random() < 0.6 else model) if m.DESCRIPTOR.full_name == kind]
    if pool:
        copy = type(target)()
        copy.CopyFrom(rng.choice(pool))
        target.CopyFrom(copy)


def _rewire(rng: random.Random, model: ModelProto, other: ModelProto) -> None:
    """A node reads another value: a later one too, so that circles arise."""
    nodes = [m for m in messages(model) if m.DESCRIPTOR.name == "NodeProto"]
    names = [n for node in nodes for n in (*node.output, *node.input)]
    node = rng.choice(nodes) if nodes else None
    if node is not None and names:
        wires = node.input if node.input and rng.random() < 0.7 else node.output
        if len(wires):
            wires[rng.randrange(len(wires))] = rng.choice(names)


def _take_nodes(rng: random.Random, model: ModelProto, other: ModelProto) -> None:
    """Nodes and weights of another model behind those that are there."""
    model.graph.node.extend(other.graph.node)
    model.graph.initializer.extend(other.graph.initializer)
    if rng.random() < 0.5:
        model.graph.input.extend(other.graph.input)
        model.graph.output.extend(other.graph.output)


def _odd_tensor(rng: random.Random, model: ModelProto, other: ModelProto) -> None:
    """A tensor with other dimensions, element type, data, or place."""
    tensors = [m for m in messages(model) if isinstance(m, TensorProto)]
    tensor = rng.choice(tensors) if tensors else model.graph.initializer.add(name="x", data_type=1)
    action = rng.randrange(5)
    if action == 0:
        tensor.dims.extend(rng.choice(INTS) for _ in range(rng.choice([1, 2, 80])))
    elif action == 1:
        tensor.data_type = rng.randrange(26)
    elif action == 2:
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)] + bytes(rng.randrange(9))
    elif action == 3:
        tensor.data_location = TensorProto.EXTERNAL
        places = ["../x", "/etc/hostname", "x", "", "a\0b", "."]
        tensor.external_data.add(key="location", value=rng.choice(places))
        tensor.external_data.add(key=rng.choice(["offset", "length"]), value=rng.choice(["0", "-1", "9" * 30, "x"]))
    else:
        sparse = model.graph.sparse_initializer.add()
        sparse.values.CopyFrom(tensor)
        sparse.indices.CopyFrom(tensor)


def _odd_type(rng: random.Random, model: ModelProto, other: ModelProto) -> None:
    """A value's type is a sequence, an optional, a map or a sparse tensor; or it has other dimensions."""
    types = [m for m in messages(model) if isinstance(m, TypeProto)]
    if not types:
        return
    ty, inner = rng.choice(types), TypeProto()
    inner.CopyFrom(ty)
    action = rng.randrange(5)
    if action == 0:
        ty.sequence_type.elem_type.CopyFrom(inner)
    elif action == 1:
        ty.optional_type.elem_type.CopyFrom(inner)
    elif action == 2:
        ty.map_type.key_type = rng.randrange(20)
        ty.map_type.value_type.CopyFrom(inner)
    elif action == 3:
        ty.sparse_tensor_type.elem_type = rng.randrange(20)
    else:
        for _ in range(rng.choice([1, 3, 70])):
            ty.tensor_type.shape.dim.add(dim_value=rng.choice(INTS))


def _odd_attribute(rng: random.Random, model: ModelProto, other: ModelProto) -> None:
    """An attribute says that it is of another kind, refers to a function's, or is new."""
    nodes = [m for m in messages(model) if m.DESCRIPTOR.name == "NodeProto"]
    if not nodes:
        return
    node = rng.choice(nodes)
    attribute = rng.choice(node.attribute) if node.attribute else node.attribute.add(name=rng.choice(TEXTS))
    if rng.random() < 0.7:
        attribute.type = rng.choice(AttributeProto.AttributeType.values())
    else:
        attribute.ref_attr_name = rng.choice(TEXTS)


STRUCTURE: tuple[Callable[[random.Random, ModelProto, ModelProto], None], ...] = (
    _change_a_field,
    _change_a_field,
    _change_a_field,
    _change_a_list,
    _change_a_list,
    _graft,
    _graft,
    _rewire,
    _take_nodes,
    _odd_tensor,
    _odd_type,
    _odd_attribute,
)


def damaged_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """*data* with flips, a cut, or a part of *other*."""
    whole = bytearray(data)
    action = rng.randrange(4)
    if action == 0 or not whole:
        return bytes(whole[: rng.randrange(len(whole) + 1)])
    if action == 1 and other:
        start, stop = sorted(rng.randrange(len(other) + 1) for _ in range(2))
        place = rng.randrange(len(whole) + 1)
        return bytes(whole[:place] + other[start:stop] + whole[place + rng.randrange(64) :])
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        whole[rng.randrange(len(whole))] = rng.randrange(256) if action == 2 else rng.choice([0, 1, 127, 128, 255])
    return bytes(whole)


def mutated(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """One input: *data* damaged by structure (five of six) and by bytes."""
    by_bytes = rng.random()
    if by_bytes < 0.85:
        model, second = ModelProto(), ModelProto()
        model.ParseFromString(data)
        second.ParseFromString(other)
        for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
            try:
                rng.choice(STRUCTURE)(rng, model, second)
            except (DecodeError, ValueError, IndexError):  # protobuf refuses what cannot be written
                continue
        data = model.SerializeToString()
    return damaged_bytes(rng, data, other) if by_bytes > 0.8 else data
