"""Importing this module makes ``import tvm`` resolve to byoc, as in the process whose environment this one has.

Processes of ours that try a vendor's code (``byoc certify``) import it before that code.
"""

from __future__ import annotations

import os

from byoc.compat.tvm import MOUNTS_VARIABLE, install, mount

install()
for _folder in filter(None, os.environ.get(MOUNTS_VARIABLE, "").split(os.pathsep)):
    mount(_folder)
