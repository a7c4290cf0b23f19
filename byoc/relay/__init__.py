"""The graph language, under the names that Relay's users know, each loaded when first used. Source: ``tvm.relay``.

Expressions, types, text, functors and all operators (``relay.add``, ``relay.nn.conv2d``) are here. Once this package is
imported, every operator is found by its name (``byoc.ir.op``), and so are the global functions and the options of
pass contexts that tables beside this list.
"""

import importlib
from pathlib import Path

from byoc.base.lazy_names import lazy_names
from byoc.ir.passes.pass_context import CONFIG_OPTIONS
from byoc.ir.registry import GLOBAL_FUNCTIONS, read_homes

_FOLDER = Path(__file__).parent
GLOBAL_FUNCTIONS.defer(read_homes(_FOLDER / "functions.txt", __name__))
CONFIG_OPTIONS.defer(read_homes(_FOLDER / "config_options.txt", __name__))
importlib.import_module(f"{__name__}.op")  # which says where operators are
__getattr__, __dir__, __all__ = lazy_names(__name__)
