"""What a runtime module has by name: a function that takes NDArrays, and fills or returns some."""

from __future__ import annotations

from collections.abc import Callable

PackedFunction = Callable[..., object]
