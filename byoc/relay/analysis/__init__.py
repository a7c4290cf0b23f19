"""Questions about expressions that change nothing, each loaded when it is first asked."""

from byoc.lazy_names import lazy_names

# name -> the module that defines it; the same imports stand in __init__.pyi
_HOMES = {
    "AnnotatedRegionSet": ".annotated_regions",
    "CallGraph": ".call_graph",
    "Feature": ".features",
    "all_dtypes": ".type_variables",
    "all_type_vars": ".type_variables",
    "all_vars": ".variables",
    "bound_type_vars": ".type_variables",
    "bound_vars": ".variables",
    "check_basic_block_normal_form": ".well_formedness",
    "check_constant": ".well_formedness",
    "check_kind": ".kinds",
    "count_layers": ".op_counts",
    "detect_feature": ".features",
    "extract_fused_functions": ".extraction",
    "extract_intermdeiate_expr": ".extraction",
    "extract_intermediate_expr": ".extraction",
    "free_type_vars": ".type_variables",
    "free_vars": ".variables",
    "get_calibration_data": ".calibration",
    "get_total_mac_number": ".op_counts",
    "infer_expr": ".type_infer",
    "infer_function": ".module_types",
    "infer_module": ".module_types",
    "infer_type_local": ".module_types",
    "list_fake_quantized_op_freqs": ".fake_quantized_regions",
    "list_op_freqs": ".op_counts",
    "post_order_visit": ".variables",
    "search_dense_op_weight": ".extraction",
    "search_fc_transpose": ".extraction",
    "typed_expr": ".module_types",
    "unmatched_cases": ".unmatched",
    "well_formed": ".well_formedness",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
