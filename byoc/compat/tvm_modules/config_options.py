"""Options of a PassContext that speak of what TVM had below the graph: they may be given, and change nothing here.

Source: the options that TVM v0.18 registers under ``tir.`` and for its schedulers.
"""

from __future__ import annotations

from byoc.ir.passes.pass_context import CONFIG_OPTIONS, register_config_option

BELOW_THE_GRAPH: dict[str, type] = {
    "relay.backend.use_auto_scheduler": bool,
    "relay.backend.use_meta_schedule": bool,
    "relay.backend.use_meta_schedule_dispatch": int,
    "relay.backend.disable_auto_scheduler_dispatch": bool,
    "relay.backend.tir_converter": str,
    "relay.frontend.fill_span": bool,
    "relay.remove_standalone_reshapes.enable": bool,
    "tir.add_lower_pass": list,
    "tir.debug_keep_trivial_loop": bool,
    "tir.detect_global_barrier": bool,
    "tir.disable_assert": bool,
    "tir.disable_cse_tir": bool,
    "tir.disable_storage_rewrite": bool,
    "tir.disable_vectorize": bool,
    "tir.enable_debug": bool,
    "tir.instrument_bound_checkers": bool,
    "tir.noalias": bool,
    "tir.usmp.algorithm": str,
    "tir.usmp.custom_algorithm": str,
    "tir.usmp.enable": bool,
    "tir.usmp.use_workspace_io": bool,
}

for _name, _kind in BELOW_THE_GRAPH.items():
    if _name not in CONFIG_OPTIONS:
        register_config_option(_name, _kind)
