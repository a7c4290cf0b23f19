"""The definitions of tensor arrays whose elements are of one static shape, each added once.

A definition that needs the tensors of another shape defines these first. Texts are those of
:mod:`byoc.relay.std.tensor_array_text`. Source: ``tvm.relay.prelude``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import UserError
from byoc.ir.types import Any
from byoc.relay.std import tensor_array_text as texts


def static_name(canonical: str, dtype: str, shape: Sequence[object], batch_dim: int | None = None) -> str:
    """``static_tensor_float32_2_any_t`` for ``tensor_t`` of shape (2, ?), else ``<canonical>_float32_2_any``.

    Raises UserError for a dimension that is neither a number nor Any.
    """
    names = []
    for dim in shape:
        if not isinstance(dim, (Any, int)):
            raise UserError(f"a dimension of a tensor array is a number or Any, got {dim!r}")
        names.append("any" if isinstance(dim, Any) else str(int(dim)))
    form = "_".join(names) or "scalar"
    if canonical == "tensor_t":
        return f"static_tensor_{dtype}_{form}_t"
    if batch_dim is None or canonical in ("tensor_constructor", "tensor_nil"):
        return f"{canonical}_{dtype}_{form}"
    return f"{canonical}_{dtype}_batch{batch_dim}_{form}"


class StaticTensorArrayText:
    """What to define for a dtype and a shape; a subclass says what is there and adds a text."""

    def __init__(self, dtype: str, shape: Sequence[object], batch_dim: int | None = None):
        self.dtype, self.shape, self.batch_dim = dtype, list(shape), batch_dim

    def _defined(self, name: str) -> bool:
        raise NotImplementedError

    def _define(self, text: str) -> None:
        raise NotImplementedError

    def _forget(self, name: str) -> None:
        raise NotImplementedError

    # names ----------------------------------------------------------------------------------------------------------

    def get_name(self, canonical: str) -> str:
        """The name of a definition."""
        return static_name(canonical, self.dtype, self.shape, self.batch_dim)

    def _of(self, shape: Sequence[object], canonical: str) -> str:
        """The name of a definition for another shape."""
        return static_name(canonical, self.dtype, shape, self.batch_dim)

    @property
    def _grown(self) -> list[object]:
        """The shape with a new first axis."""
        return [self.batch_dim if self.batch_dim == 1 else Any(), *self.shape]

    @property
    def _joined(self) -> list[object]:
        """The shape whose first axis is of any size."""
        return [Any(), *self.shape[1:]]

    def _data(self, shape: Sequence[object]) -> str:
        return f"Tensor[{texts.shape_text(list(shape))}, {self.dtype}]" if shape else self.dtype

    def _add(self, name: str, text: str) -> None:
        """Define what *text* says, whose last function is *name*, unless it is there."""
        if not self._defined(name):
            self._define(text)

    def _add_looping(self, canonical: str, text: str, again: bool) -> None:
        """Define the function *canonical* and the helper that it loops by; *again* replaces both."""
        if again:
            self._forget(self.get_name(canonical))
            self._forget(self.get_name(f"{canonical}_helper"))
        self._add(self.get_name(canonical), text)

    # definitions ----------------------------------------------------------------------------------------------------

    def _tensors(self, shape: Sequence[object]) -> str:
        """The name of the type of tensors of *shape*, which is defined."""
        name = self._of(shape, "tensor_t")
        if not self._defined(name):
            make, nothing = self._of(shape, "tensor_constructor"), self._of(shape, "tensor_nil")
            self._define(f"type {name} {{ {make}({self._data(shape)}), {nothing}, }}")
        return name

    def define_tensor_adt(self) -> None:
        """The type ``tensor_t`` with the constructors ``tensor_constructor`` and ``tensor_nil``."""
        self._tensors(self.shape)

    def _elementwise(self, canonical: str, params: str, out: list[object], value: str) -> None:
        """A function that takes the tensor %t out of its first parameter, and puts *value* into one of shape *out*."""
        tensor, result = self._tensors(self.shape), self._tensors(out)
        name, make = self.get_name(canonical), self._of(out, "tensor_constructor")
        take = f"{self.get_name('tensor_constructor')}(%t)"
        body = f"match? (%x) {{ {take} => {make}({value}), }}"
        self._add(name, f"def @{name}(%x: {tensor}{params}) -> {result} {{ {body} }}")

    def define_tensor_take(self) -> None:
        """``tensor_take(tensor, lower, upper)``: a range of the first axis; nothing for scalars."""
        if self.shape:
            indices = 'arange(%lower, %upper, 1, dtype="int32")'
            bounds = ", %lower: int32, %upper: int32"
            self._elementwise("tensor_take", bounds, self._joined, f"take(%t, {indices}, axis=0)")

    def define_tensor_expand_dims(self) -> None:
        """``tensor_expand_dims(tensor)``: a new first axis."""
        self._elementwise("tensor_expand_dims", "", self._grown, "expand_dims(%t, axis=0)")

    def _concatenate(self, shape: list[object]) -> str:
        """The name of the function that joins two tensors of *shape* along their first axis; it is defined."""
        out = [Any(), *shape[1:]]
        tensor, result, name = self._tensors(shape), self._tensors(out), self._of(shape, "tensor_concatenate")
        take, make = self._of(shape, "tensor_constructor"), self._of(out, "tensor_constructor")
        body = f"match? (%x, %y) {{ ({take}(%a), {take}(%b)) => {make}(concatenate((%a, %b), axis=0)), }}"
        self._add(name, f"def @{name}(%x: {tensor}, %y: {tensor}) -> {result} {{ {body} }}")
        return name

    def define_tensor_concatenate(self) -> None:
        """``tensor_concatenate(x, y)``: one after the other along the first axis; nothing for scalars."""
        if self.shape:
            self._concatenate(self.shape)

    def define_tensor_array(self) -> None:
        """``tensor_array(n)``: n elements, none of which is set."""
        self._add(self.get_name("tensor_array"), texts.array(self.get_name, self._tensors(self.shape)))

    def define_tensor_array_read(self) -> None:
        """``tensor_array_read(array, i)``."""
        self._add(self.get_name("tensor_array_read"), texts.read(self.get_name, self._tensors(self.shape)))

    def _writer(self, shape: Sequence[object]) -> str:
        """The name of the function that sets an element in an array of tensors of *shape*; it is defined."""
        tensor, name = self._tensors(shape), self._of(shape, "tensor_array_write")
        self._add(name, texts.write(lambda canonical: self._of(shape, canonical), tensor))
        return name

    def define_tensor_array_write(self) -> None:
        """``tensor_array_write(array, i, tensor)``."""
        self._writer(self.shape)

    def define_tensor_array_unstack(self) -> None:
        """``tensor_array_unstack(data)``: the slices of a tensor of the shape; nothing for scalars."""
        if self.shape:
            inner = self.shape[1:]
            element, make = self._tensors(inner), self._of(inner, "tensor_constructor")
            name = "tensor_array_unstack"
            text = texts.unstack(self.get_name, name, self._data(self.shape), element, make)
            self._add(self.get_name(name), text)

    def define_tensor_array_scatter(
        self, indices_shape: Sequence[object] | None = None, force_update: bool = False
    ) -> None:
        """``tensor_array_scatter(array, indices, values)``; *force_update* defines it again."""
        self.define_tensor_array_read()
        self.define_tensor_array_write()
        indices = f"Tensor[{texts.shape_text(list(indices_shape or [Any()]))}, int32]"
        text = texts.scatter(self.get_name, self._tensors(self.shape), indices)
        self._add_looping("tensor_array_scatter", text, force_update)

    def define_tensor_array_split(
        self,
        value_shape: Sequence[object] | None = None,
        lens_shape: Sequence[object] | None = None,
        force_update: bool = False,
    ) -> None:
        """``tensor_array_split(array, value, lengths)``, nothing for scalars; *force_update* defines it again."""
        if not self.shape:
            return
        value = self._at(list(value_shape) if value_shape is not None else self.shape)
        value.define_tensor_take()
        lengths = f"Tensor[{texts.shape_text(list(lens_shape or [Any()]))}, int32]"
        text = texts.split(
            self.get_name,
            self._tensors(self._joined),
            value._tensors(value.shape),
            lengths,
            self._writer(self._joined),
            value.get_name("tensor_take"),
        )
        self._add_looping("tensor_array_split", text, force_update)

    def _at(self, shape: Sequence[object]) -> StaticTensorArrayText:
        """The definitions of the same module for another shape."""
        raise NotImplementedError

    def define_tensor_array_concat(self) -> None:
        """``tensor_array_concat(array)``: all elements, one after another; nothing for scalars."""
        if self.shape:
            out = self._joined

            def names(canonical: str) -> str:
                return self.get_name(canonical) if canonical == "tensor_array_concat" else self._of(out, canonical)

            text = texts.concat(names, self._tensors(out), self._concatenate(out))
            self._add(self.get_name("tensor_array_concat"), text)

    def define_tensor_array_stack(self) -> None:
        """``tensor_array_stack(array)``: all elements along a new first axis."""
        self.define_tensor_expand_dims()
        joined = self._concatenate([Any(), *self.shape])
        expand = self.get_name("tensor_expand_dims")
        out = self._tensors([Any(), *self.shape])
        text = texts.stack(self.get_name, self._tensors(self.shape), out, expand, joined)
        self._add(self.get_name("tensor_array_stack"), text)

    def define_tensor_array_gather(self) -> None:
        """``tensor_array_gather(array, indices)``: the elements at the indices along a new first axis."""
        self.define_tensor_array_read()
        self.define_tensor_array_stack()
        out = self._tensors([Any(), *self.shape])
        text = texts.gather(self.get_name, self._tensors(self.shape), out, "Tensor[(?), int32]")
        self._add(self.get_name("tensor_array_gather"), text)

    def define_tensor_get_data(self) -> None:
        """``tensor_get_data(tensor)``: the tensor itself."""
        tensor, name = self._tensors(self.shape), self.get_name("tensor_get_data")
        body = f"match? (%x) {{ {self.get_name('tensor_constructor')}(%t) => %t, }}"
        self._add(name, f"def @{name}(%x: {tensor}) -> {self._data(self.shape)} {{ {body} }}")

    def define_all(self) -> None:
        """Every definition above."""
        self.define_tensor_adt()
        self.define_tensor_take()
        self.define_tensor_concatenate()
        self.define_tensor_expand_dims()
        self.define_tensor_array()
        self.define_tensor_array_read()
        self.define_tensor_array_write()
        self.define_tensor_array_unstack()
        self.define_tensor_array_scatter()
        self.define_tensor_array_split()
        self.define_tensor_array_concat()
        self.define_tensor_array_stack()
        self.define_tensor_array_gather()
        self.define_tensor_get_data()
