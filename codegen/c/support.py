"""What stands above the functions of every source: the headers, and the team of threads."""

from __future__ import annotations

from byoc.codegen.c.team import DEFINITIONS

HEADERS = ("math.h", "stdbool.h", "stdint.h", "string.h")
PREAMBLE = "\n".join([*(f"#include <{h}>" for h in HEADERS), "", DEFINITIONS])
