"""Where models come from: each source makes the case of a seed."""

from fuzz.generators.sources import SOURCES, case_of

__all__ = ["SOURCES", "case_of"]
