"""A kernel over images as a program of its own, for trials: what it reads is copied into images, its result out of one.

Arguments of a function are buffers. So a kernel by itself stands between copies, each a kernel of its own that nobody
times (``DeviceCandidate.uncounted``); what it reads was written just before, as in a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.device.alone import alone, tensors_outside
from byoc.codegen.opencl.device.kernel_plan import OWN_KERNEL, KernelPlan, OwnKernel, own_kernel
from byoc.codegen.opencl.images.choice import ChosenImages
from byoc.codegen.opencl.images.texel_kernel import texel_kernel
from byoc.runtime.opencl.images import ImageSize
from byoc.runtime.opencl.launches import FunctionPlan
from byoc.te import Index, PrimExpr, Tensor
from byoc.te.tensor import Load
from byoc.te.walk import map_expr

INTO, OUT_OF = "into_images", "out_of_images"  # the groups of copies


@dataclass(frozen=True)
class _CopyKernel(OwnKernel):
    """Copies *source* into a stage; either is an image of *size*, the stage where *fills*."""

    source: Tensor
    size: ImageSize
    fills: bool

    def kernel(self, stage: Tensor, simplify: Simplifier) -> KernelPlan:
        return texel_kernel(stage, {stage if self.fills else self.source: self.size}, simplify)


def between_images(
    stages: Sequence[Tensor], targets: Sequence[Tensor], symbol: str, images: Mapping[Tensor, ImageSize]
) -> Program:
    """The program *symbol* of *stages*, as ``alone`` makes it, whose tensors are *images* with copies around them.

    Raises CompileError for a stage with a dimension that is no number.
    """
    program = alone(stages, targets, symbol)
    (group,) = program.groups
    loaded = dict(zip(tensors_outside(stages), program.inputs, strict=True))
    entries = {own: _copy(own, images[t], True) for t, own in loaded.items() if t in images}
    table: dict[Tensor, Tensor] = dict(entries)

    def leaf(e: PrimExpr) -> PrimExpr | None:
        if isinstance(e, Load) and e.tensor in table:
            return e.of(table[e.tensor], [map_expr(i, leaf) for i in e.indices])
        return None

    for stage in group.stages:
        body = map_expr(stage.element, leaf)
        table[stage] = Tensor(stage.name, stage.shape, stage.dtype, stage.axes, body, stage.tag)
    results = [table[t] for t in program.outputs]
    sizes = [images.get(t) for t in targets]
    outputs = [r if size is None else _copy(r, size, False) for r, size in zip(results, sizes, strict=True)]
    own = replace(group, stages=tuple(table[s] for s in group.stages))
    copies = Group(INTO, (), tuple(entries.values()), INTO)
    after = Group(OUT_OF, (), tuple(o for o in outputs if o not in results), OUT_OF)
    groups = tuple(g for g in (copies, own, after) if g.stages)
    return replace(program, outputs=tuple(outputs), groups=groups)


def _copy(source: Tensor, size: ImageSize, fills: bool) -> Tensor:
    """A stage that is *source*: an image where it *fills* one, else out of one."""
    axes = [Index(f"i{k}", extent) for k, extent in enumerate(source.shape)]
    meta: dict[str, object] = {OWN_KERNEL: _CopyKernel(source, size, fills)}
    return Tensor(f"{source.name}_copy", source.shape, source.dtype, axes, source[tuple(axes)], meta=meta)


def images_between(program: Program, by_texels: bool) -> ChosenImages:
    """The images of *program*, made by :func:`between_images`, whose kernel fills whole texels where *by_texels*."""
    sizes: dict[Tensor, ImageSize] = {}
    filled: list[Tensor] = []
    for group in program.groups:
        for stage in group.stages:
            own = own_kernel(stage)
            if isinstance(own, _CopyKernel):
                sizes[stage if own.fills else own.source] = own.size
            elif by_texels:
                filled.append(stage)
    return ChosenImages(sizes, frozenset(filled))


def copies_of(program: Program, plan: FunctionPlan) -> frozenset[str]:
    """The names of those kernels of *plan*, of *program* as above, that are copies."""
    counts = {g.name: len(g.stages) for g in program.groups}
    before, behind = counts.get(INTO, 0), counts.get(OUT_OF, 0)
    launches = (*plan.launches[:before], *plan.launches[len(plan.launches) - behind :])
    return frozenset(v.kernel for launch in launches for v in launch.variants)
