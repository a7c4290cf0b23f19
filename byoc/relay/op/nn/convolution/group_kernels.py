"""Kernels of grouped convolutions with the groups as an axis of their own: ``GOIHW``, ``GIOHW``.

Such a kernel ``[G, O / G, I, ...]`` holds the same numbers in the same order as the plain one, in which the axis O (I
of a transposed convolution) runs along all groups. oneDNN's integration asks for it. Source:
``dnnl.legalize_group_conv``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.size_var import times
from byoc.ir.types import Dim, TensorType
from byoc.relay.op.core.window import differ
from byoc.te import Index, PrimExpr, Tensor

if TYPE_CHECKING:
    from byoc.relay.op.attributes.convolution import ConvAttrs, TransposedAttrs

GROUP = "G"


def has_group_axis(layout: str) -> bool:
    """Whether the first axis of a kernel in *layout* is that of the groups."""
    return layout.startswith(GROUP)


def merged_type(kernel: TensorType, attrs: ConvAttrs | TransposedAttrs, along: str) -> tuple[TensorType, str]:
    """The type and the layout of *kernel* with its groups in the axis *along*; both as they are without such an axis.

    Raises TypeInferenceError where the axis is not as long as there are groups.
    """
    layout = str(attrs.kernel_layout)
    if not has_group_axis(layout) or kernel.ndim != len(layout):
        return kernel, layout
    groups = attrs.groups
    if differ(kernel.shape[0], groups):
        raise TypeInferenceError(f"the kernel has {kernel.shape[0]} groups in layout {layout}, the attributes {groups}")
    sizes: list[Dim] = [*kernel.shape[1:]]
    place = layout.index(along) - 1
    sizes[place] = times(sizes[place], groups)
    return TensorType(sizes, kernel.dtype), layout[1:]


def merged_stage(kernel: Tensor, layout: str, along: str) -> Tensor:
    """The elements of *kernel*, whose layout begins with the groups, with these in the axis *along*."""
    groups, *sizes = kernel.shape
    place = layout.index(along) - 1
    per_group, sizes[place] = sizes[place], sizes[place] * groups

    def element(*index: Index) -> PrimExpr:
        at: list[PrimExpr] = list(index)
        at[place] = index[place] % per_group
        return kernel(index[place] / per_group, *at)

    return te.compute(sizes, element, name="merge_groups")
