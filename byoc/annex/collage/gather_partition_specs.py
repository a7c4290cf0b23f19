"""A specification for each target of a compilation, and one for the host.

A TVM target fuses as FuseOps does. An external compiler runs what its pattern table matches; how its composites are
fused among each other is its style: not at all, as TVM does, or whatever touches. Source: Collage's
``gather_partition_specs.cc`` and ``relay/collage/collage.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol

from byoc.annex.collage.combiner_rule import (
    AllSimpleCombinerRule,
    ByKindSimpleCombinerRule,
    CombinerRule,
    ConstantCombinerRule,
    TupleArgCombinerRule,
    TupleProjCombinerRule,
)
from byoc.annex.collage.partition_rule import (
    CombinePartitionRule,
    CompositePartitionRule,
    DFPatternPartitionRule,
    HostPartitionRule,
    OnlyValidPartitionRule,
    OpaqueCallPartitionRule,
    OpCallByKindPartitionRule,
    PartitionRule,
    Predicate,
    PrimitivePartitionRule,
    UnionPartitionRule,
    always,
)
from byoc.annex.collage.partition_spec import HOST_SPEC_NAME, PartitionSpec
from byoc.annex.collage.sub_graph import SubGraphConfig
from byoc.errors import PartitionError, UserError
from byoc.ir.attrs import as_int
from byoc.ir.op import OpPattern
from byoc.ir.passes.transform import PassContext, register_config_option
from byoc.ir.registry import register_func
from byoc.ir.target import Target
from byoc.relay.dataflow_pattern.patterns import DFPattern
from byoc.relay.op import contrib

TVM_MAX_DEPTH = "relay.collage.tvm_max_depth"
BYOC_MAX_DEPTH = "relay.collage.byoc_max_depth"
BYOC_FUSION_STYLE = "relay.collage.byoc_fusion_style"
DEFAULT_MAX_DEPTH = 4

register_config_option(TVM_MAX_DEPTH, int)
register_config_option(BYOC_MAX_DEPTH, int)
register_config_option(BYOC_FUSION_STYLE, list)


class CompilationTargets(Protocol):
    """What is read of a compilation's configuration."""

    primitive_targets: Sequence[Target]
    host_target: Target


class FusionStyle(enum.Enum):
    """How an external compiler fuses its composites; the values are the names in the pass option."""

    NO_FUSION = "NoFusion"
    TVM_FUSION = "TVMFusion"
    ARBITRARY_FUSION = "ArbitraryFusion"


_STYLES = {
    **dict.fromkeys(("cutlass", "cublas", "cudnn"), FusionStyle.NO_FUSION),
    "tensorrt": FusionStyle.TVM_FUSION,
}


def fusion_style(compiler: str) -> FusionStyle:
    """How *compiler* fuses: as the pass option ``relay.collage.byoc_fusion_style`` says, else as is known of it.

    The option is a list of ``<compiler>.<style>``. Raises UserError for one that has another form or style.
    """
    style = _STYLES.get(compiler, FusionStyle.ARBITRARY_FUSION)
    styles = PassContext.current().config.get(BYOC_FUSION_STYLE)
    for entry in styles if isinstance(styles, (list, tuple)) else ():
        name, _, wanted = str(entry).rpartition(".")
        if wanted not in {each.value for each in FusionStyle} or not name:
            known = ", ".join(each.value for each in FusionStyle)
            raise UserError(f"Unknown fusion name in {BYOC_FUSION_STYLE}: {entry!r}; write <compiler>.<one of {known}>")
        if name == compiler:
            style = FusionStyle(wanted)
    return style


def max_depth(key: str) -> int:
    """The depth that the pass option *key* allows."""
    value = PassContext.current().config.get(key)
    return DEFAULT_MAX_DEPTH if value is None else as_int(value)


def tvm_combiner_rules() -> list[CombinerRule]:
    """The rules of FuseOps: what may follow what in one kernel."""
    simple = (
        ByKindSimpleCombinerRule(OpPattern.OUT_ELEMWISE_FUSABLE, OpPattern.BROADCAST),
        ByKindSimpleCombinerRule(OpPattern.BROADCAST, OpPattern.COMM_REDUCE),
        ByKindSimpleCombinerRule(OpPattern.INJECTIVE, OpPattern.INJECTIVE),
    )
    return [AllSimpleCombinerRule(simple), TupleArgCombinerRule(), TupleProjCombinerRule(), ConstantCombinerRule()]


def byoc_combiner_rules(compiler: str) -> list[CombinerRule]:
    """The rules of an external compiler, by its fusion style."""
    style = fusion_style(compiler)
    if style is FusionStyle.NO_FUSION:
        return []
    if style is FusionStyle.TVM_FUSION:
        return tvm_combiner_rules()
    kind = OpPattern.OUT_ELEMWISE_FUSABLE
    return [AllSimpleCombinerRule((ByKindSimpleCombinerRule(kind, kind),))]


def make_tvm_partition_rule() -> PartitionRule:
    """Fused groups of operators, as FuseOps makes them, up to a depth; they are left to FuseOps."""
    config = SubGraphConfig(max_exits=1, allow_taps=False, max_depth=max_depth(TVM_MAX_DEPTH))
    combined = CombinePartitionRule("", OpCallByKindPartitionRule(""), tvm_combiner_rules(), config)
    return UnionPartitionRule("", (OnlyValidPartitionRule("", combined, config), OpaqueCallPartitionRule("")))


def make_labelled_dfpattern_partition_rule(
    compiler: str, rule_name: str, pattern: DFPattern, predicate: Predicate = always
) -> PartitionRule:
    """A row of a pattern table as a rule: its matches are composites of that name."""
    return CompositePartitionRule(rule_name, DFPatternPartitionRule("", pattern, predicate))


def make_pattern_byoc_partition_rule(compiler: str, sub_rules: Sequence[PartitionRule]) -> PartitionRule:
    """The candidates of *sub_rules*, fused in the style of *compiler*, as functions of it."""
    config = SubGraphConfig(max_exits=1, allow_taps=False, max_depth=max_depth(BYOC_MAX_DEPTH))
    unioned = UnionPartitionRule("", tuple(sub_rules))
    combined = CombinePartitionRule("", unioned, byoc_combiner_rules(compiler), config)
    return PrimitivePartitionRule("", OnlyValidPartitionRule("", combined, config))


def make_byoc_partition_rule(compiler: str) -> PartitionRule:
    """The rule of *compiler*, by its pattern table. Raises PartitionError where it has none."""
    table = contrib.get_pattern_table(compiler)  # as it is now: a replacement of that function takes effect
    if table is None:
        raise PartitionError(
            f"No pattern table entry was found for BYOC compiler {compiler}: register one with register_pattern_table"
        )
    return make_pattern_byoc_partition_rule(
        compiler,
        [make_labelled_dfpattern_partition_rule(compiler, *row) for row in table],
    )


def gather_partition_specs(config: CompilationTargets) -> list[PartitionSpec]:
    """A specification for each target of *config*, in their order, and one for the host."""
    specs: list[PartitionSpec] = []
    for target in config.primitive_targets:
        external = target.is_external_codegen
        rule = make_byoc_partition_rule(target.kind.name) if external else make_tvm_partition_rule()
        specs.append(PartitionSpec(target.kind.name, target, rule))
    specs.append(PartitionSpec(HOST_SPEC_NAME, config.host_target, HostPartitionRule("")))
    return specs


register_func("relay.collage.make_labelled_dfpattern_partition_rule", make_labelled_dfpattern_partition_rule)
register_func("relay.collage.make_pattern_byoc_partition_rule", make_pattern_byoc_partition_rule)
register_func("tvm.relay.collage.make_byoc_partition_rule", make_byoc_partition_rule)
