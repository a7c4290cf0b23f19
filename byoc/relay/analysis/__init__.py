"""Questions about expressions that change nothing."""

from byoc.relay.analysis.calibration import get_calibration_data
from byoc.relay.analysis.fake_quantized_regions import list_fake_quantized_op_freqs
from byoc.relay.analysis.module_types import infer_function, infer_module, infer_type_local, typed_expr
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.analysis.variables import all_vars, bound_vars, free_vars, post_order_visit

__all__ = [
    "all_vars", "bound_vars", "free_vars", "get_calibration_data", "infer_expr", "infer_function", "infer_module",
    "infer_type_local", "typed_expr",
    "list_fake_quantized_op_freqs", "post_order_visit",
]
