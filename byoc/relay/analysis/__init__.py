"""Questions about expressions that change nothing."""

import importlib
from typing import TYPE_CHECKING

from byoc.relay.analysis.calibration import get_calibration_data
from byoc.relay.analysis.call_graph import CallGraph
from byoc.relay.analysis.extraction import (
    extract_fused_functions,
    extract_intermdeiate_expr,
    extract_intermediate_expr,
    search_dense_op_weight,
    search_fc_transpose,
)
from byoc.relay.analysis.fake_quantized_regions import list_fake_quantized_op_freqs
from byoc.relay.analysis.features import Feature, detect_feature
from byoc.relay.analysis.kinds import check_kind
from byoc.relay.analysis.module_types import infer_function, infer_module, infer_type_local, typed_expr
from byoc.relay.analysis.op_counts import count_layers, get_total_mac_number, list_op_freqs
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.analysis.type_variables import all_dtypes, all_type_vars, bound_type_vars, free_type_vars
from byoc.relay.analysis.unmatched import unmatched_cases
from byoc.relay.analysis.variables import all_vars, bound_vars, free_vars, post_order_visit
from byoc.relay.analysis.well_formed import check_basic_block_normal_form, check_constant, well_formed

if TYPE_CHECKING:
    from byoc.relay.analysis.annotated_regions import AnnotatedRegionSet as AnnotatedRegionSet

__all__ = [
    "CallGraph",
    "Feature",
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "bound_type_vars",
    "bound_vars",
    "check_basic_block_normal_form",
    "check_constant",
    "check_kind",
    "count_layers",
    "detect_feature",
    "extract_fused_functions",
    "extract_intermdeiate_expr",
    "extract_intermediate_expr",
    "free_type_vars",
    "free_vars",
    "get_calibration_data",
    "get_total_mac_number",
    "infer_expr",
    "infer_function",
    "infer_module",
    "infer_type_local",
    "list_fake_quantized_op_freqs",
    "list_op_freqs",
    "post_order_visit",
    "search_dense_op_weight",
    "search_fc_transpose",
    "typed_expr",
    "unmatched_cases",
    "well_formed",
]

# what needs the operators, which need this package: loaded on first use
_LATER = {"AnnotatedRegionSet": "byoc.relay.analysis.annotated_regions"}


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"byoc.relay.analysis has no name {name!r}")
