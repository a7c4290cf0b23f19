"""Relay's text of tensor arrays: lists of tensors whose shapes differ (by rank), or are all of one static form.

Each function here gives the text of one definition; ``{name(…)}`` of the names is the caller's, so that dtypes and
shapes may stand in them. Source: the definitions of ``tvm.relay.prelude``, written anew as text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

Names = Callable[[str], str]
MAX_RANK = 6


def shape_text(rank_or_shape: int | list[object]) -> str:
    """``(?, ?)`` for a rank, or the dimensions of a shape."""
    dims = ["?"] * rank_or_shape if isinstance(rank_or_shape, int) else [str(d) for d in rank_or_shape]
    return f"({', '.join(dims)})"


# what depends on the type of the elements alone -----------------------------------------------------------------------


def array(n: Names, tensor: str) -> str:
    """A tensor array of so many elements, none of which is set."""
    return f"""
def @{n("tensor_array")}(%n: int32) -> List[{tensor}] {{
  if (%n == 0) {{ Nil }} else {{ Cons({n("tensor_nil")}, @{n("tensor_array")}(%n - 1)) }}
}}"""


def read(n: Names, tensor: str) -> str:
    """Element i."""
    return f"""
def @{n("tensor_array_read")}(%tensor_array: List[{tensor}], %i: int32) -> {tensor} {{ @nth(%tensor_array, %i) }}"""


def write(n: Names, tensor: str) -> str:
    """The array with element i set."""
    return f"""
def @{n("tensor_array_write")}(%tensor_array: List[{tensor}], %i: int32, %v: {tensor}) -> List[{tensor}] {{
  @update(%tensor_array, %i, %v)
}}"""


def scatter(n: Names, tensor: str, indices: str) -> str:
    """The array with the elements at *indices* set to those of another."""
    helper = n("tensor_array_scatter_helper")
    return f"""
def @{helper}(%ta: List[{tensor}], %current: int32, %limit: int32, %indices: {indices}, %values: List[{tensor}])
    -> List[{tensor}] {{
  if (%current == %limit) {{
    %ta
  }} else {{
    let %written = @{n("tensor_array_write")}(
      %ta, take(%indices, %current), @{n("tensor_array_read")}(%values, %current));
    @{helper}(%written, %current + 1, %limit, %indices, %values)
  }}
}}
def @{n("tensor_array_scatter")}(%tensor_array: List[{tensor}], %indices: {indices}, %values: List[{tensor}])
    -> List[{tensor}] {{
  @{helper}(%tensor_array, 0, take(shape_of(%indices, dtype="int32"), 0), %indices, %values)
}}"""


def split(n: Names, tensor: str, value: str, lengths: str, write_name: str, take_name: str) -> str:
    """The array whose elements are pieces of *value*, as long as *lengths* say."""
    helper = n("tensor_array_split_helper")
    return f"""
def @{helper}(%ta: List[{tensor}], %value: {value}, %offset: int32, %current: int32, %limit: int32, %lengths: {lengths})
    -> List[{tensor}] {{
  if (%current == %limit) {{
    %ta
  }} else {{
    let %end = %offset + take(%lengths, %current);
    let %rest = @{helper}(%ta, %value, %end, %current + 1, %limit, %lengths);
    @{write_name}(%rest, %current, @{take_name}(%value, %offset, %end))
  }}
}}
def @{n("tensor_array_split")}(%tensor_array: List[{tensor}], %value: {value}, %lengths: {lengths})
    -> List[{tensor}] {{
  @{helper}(%tensor_array, %value, 0, 0, take(shape_of(%lengths, dtype="int32"), 0), %lengths)
}}"""


def concat(n: Names, tensor: str, concatenate: str) -> str:
    """All elements, one after another."""
    return f"""
def @{n("tensor_array_concat")}(%tensor_array: List[{tensor}]) -> {tensor} {{
  match? (%tensor_array) {{
    Cons(%first, Nil) => %first,
    Cons(%first, %rest) => @{concatenate}(%first, @{n("tensor_array_concat")}(%rest)),
    Nil => {n("tensor_nil")},
  }}
}}"""


def stack(n: Names, tensor: str, out: str, expand_dims: str, concatenate: str) -> str:
    """All elements along a new first axis."""
    return f"""
def @{n("tensor_array_stack")}(%tensor_array: List[{tensor}]) -> {out} {{
  let %expanded = @map(@{expand_dims}, %tensor_array);
  @foldl(@{concatenate}, @hd(%expanded), @tl(%expanded))
}}"""


def gather(n: Names, tensor: str, out: str, indices: str) -> str:
    """The elements at *indices* along a new first axis."""
    helper = n("tensor_array_gather_helper")
    return f"""
def @{helper}(%ta: List[{tensor}], %accu: List[{tensor}], %current: int32, %indices: {indices}) -> {out} {{
  if (%current == 0) {{
    @{n("tensor_array_stack")}(%accu)
  }} else {{
    let %before = %current - 1;
    let %element = @{n("tensor_array_read")}(%ta, take(%indices, %before));
    @{helper}(%ta, Cons(%element, %accu), %before, %indices)
  }}
}}
def @{n("tensor_array_gather")}(%tensor_array: List[{tensor}], %indices: {indices}) -> {out} {{
  @{helper}(%tensor_array, Nil, take(shape_of(%indices, dtype="int32"), 0), %indices)
}}"""


def unstack(n: Names, name: str, data: str, element: str, make: str) -> str:
    """The array of the slices of *data* along its first axis, each made an element by *make*."""
    helper = n(f"{name}_helper")
    return f"""
def @{helper}(%i: int32, %up: int32, %data: {data}) -> List[{element}] {{
  if (%i == %up) {{ Nil }} else {{ Cons({make}(take(%data, %i, axis=0)), @{helper}(%i + 1, %up, %data)) }}
}}
def @{n(name)}(%data: {data}) -> List[{element}] {{
  @{helper}(0, take(shape_of(%data, dtype="int32"), 0), %data)
}}"""


# tensors of any rank ------------------------------------------------------------------------------------------------


def dynamic_text(n: Names, dtype: str) -> str:
    """All definitions over tensors of rank 0 to 6 and of any size."""
    tensor, indices = n("tensor_t"), "Tensor[(?), int32]"
    made = [n(f"tensor{rank}") for rank in range(MAX_RANK + 1)]
    rows = [f"  {name}(Tensor[{shape_text(rank)}, {dtype}])," for rank, name in enumerate(made)]
    rows[0] = f"  {made[0]}({dtype}),"
    taken = [f'    {m}(%t) => {m}(take(%t, arange(%lower, %upper, 1, dtype="int32"), axis=0)),' for m in made[1:]]
    expanded = [f"    {a}(%t) => {b}(expand_dims(%t, axis=0))," for a, b in itertools.pairwise(made)]
    joined = [f"    ({m}(%a), {m}(%b)) => {m}(concatenate((%a, %b), axis=0))," for m in made[1:]]
    parts = [
        "\n".join([f"type {tensor} {{", f"  {n('tensor_nil')},", *rows, "}"]),
        f"def @{n('tensor_take')}(%x: {tensor}, %lower: int32, %upper: int32) -> {tensor} {{\n  match? (%x) {{",
        *taken,
        "  }\n}",
        f"def @{n('tensor_expand_dims')}(%x: {tensor}) -> {tensor} {{\n  match? (%x) {{",
        *expanded,
        "  }\n}",
        f"def @{n('tensor_concatenate')}(%x: {tensor}, %y: {tensor}) -> {tensor} {{\n  match? (%x, %y) {{",
        *joined,
        "  }\n}",
        array(n, tensor),
        read(n, tensor),
        write(n, tensor),
        scatter(n, tensor, indices),
        split(n, tensor, tensor, indices, n("tensor_array_write"), n("tensor_take")),
        concat(n, tensor, n("tensor_concatenate")),
        stack(n, tensor, tensor, n("tensor_expand_dims"), n("tensor_concatenate")),
        gather(n, tensor, tensor, indices),
    ]
    for rank in range(1, MAX_RANK + 1):
        data = f"Tensor[{shape_text(rank)}, {dtype}]"
        parts.append(unstack(n, f"tensor_array_unstack_tensor{rank}", data, tensor, made[rank - 1]))
    return "\n".join(parts)
