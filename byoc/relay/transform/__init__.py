"""Passes over modules, under the names that Relay's users know, each loaded when it is first used.

Source: ``relay.transform``.
"""

from byoc.base.lazy_names import lazy_names
from byoc.ir.registry import register_func

__getattr__, __dir__, __all__ = lazy_names(__name__)


def _register(name: str, alias: str = "") -> None:
    """Register pass *name*, or its *alias*: what a pass requires is found by its name, as in Relay."""
    key = f"relay._transform.{alias or name}"
    register_func(key, lambda *arguments: __getattr__(name)(*arguments), override=True)


for _name in __all__:
    _register(_name)
for _name in ("graph_visualize", "graph_visualize_pass"):  # as Paddle Lite's lists of passes have it
    _register("GraphVisualize", _name)
