"""Objects of the compiler as JSON: a list of nodes that name each other by their place. Source: ``tvm.ir.save_json``.

The layout is TVM's (``nodes`` with ``type_key`` and ``attrs``, ``root``, ``b64ndarrays``); what TVM 0.6 to 0.18 wrote
of expressions, types, attributes and modules can be read.
"""

from byoc.annex.node_json.reader import load_json
from byoc.annex.node_json.writer import save_json

__all__ = ["load_json", "save_json"]
