"""Control flow and what it carries: branches, loops and scans, sequences and optionals."""

from byoc.relay.frontend.onnx.control import branches, loops, sequences

__all__ = ["branches", "loops", "sequences"]
