"""What a user's layout rule returns. Source: ``tvm.relay.transform.infer_layout_utils``."""

from __future__ import annotations

from collections.abc import Iterable

from byoc.ir.attrs import Attrs
from byoc.ir.layout import Layout


def as_layout(layout: Layout | str | None) -> Layout:
    """*layout* as an object; None is an undefined one. Raises UserError for a word that is no layout."""
    if layout is None:
        return Layout()
    return layout if isinstance(layout, Layout) else Layout(str(layout))


class InferCorrectLayoutOutput:
    """The layouts of a call's inputs (tuples flattened) and results, and its attributes under them.

    A function ``f(attrs, new_in_layouts, old_in_layouts, old_in_types)`` that ``register_infer_correct_layout`` keeps
    returns one. Source: ``InferCorrectLayoutOutput``.
    """

    __slots__ = ("input_layouts", "new_attrs", "output_layouts")

    def __init__(
        self,
        input_layouts: Iterable[Layout | str | None],
        output_layouts: Iterable[Layout | str | None],
        new_attrs: Attrs | None,
    ):
        self.input_layouts = [as_layout(x) for x in input_layouts]
        self.output_layouts = [as_layout(x) for x in output_layouts]
        self.new_attrs = new_attrs


__all__ = ["InferCorrectLayoutOutput", "as_layout"]
