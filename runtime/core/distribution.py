"""The name under which byoc is installed, and the commands that messages advise.

The package index has another project called ``byoc``: the import name and the command are ``byoc``, the distribution is
not. Whatever tells a user to install something takes the words from here.
"""

from __future__ import annotations

import importlib.metadata

DISTRIBUTION = "byoc-compiler"


def install_command(extra: str = "") -> str:
    """The shell command that installs byoc, with *extra* where one is named (quoted: ``[`` is special to shells).

    >>> install_command("opencl")
    "pip install 'byoc-compiler[opencl]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install {DISTRIBUTION}"


def version() -> str:
    """The version of the installed distribution.

    Raises importlib.metadata.PackageNotFoundError where byoc is run from a source tree that is not installed.
    """
    return importlib.metadata.version(DISTRIBUTION)
