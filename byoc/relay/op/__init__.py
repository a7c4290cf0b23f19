"""Relay's operators: importing this package registers them, and its names are their builder functions."""

from byoc.lazy_names import lazy_names, load_all
from byoc.relay.op.blocked import allow_blocks_where_layouts_are
from byoc.relay.op.core.support_levels import set_support_levels
from byoc.relay.op.legalize import register_legalizations

__getattr__, __dir__, __all__ = lazy_names(__name__)
load_all(__name__, but=("contrib", "gradients"))  # which registers the operators
allow_blocks_where_layouts_are()
set_support_levels()
register_legalizations()
