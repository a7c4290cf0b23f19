"""One copy of each module of ours: refusals of the two ways in which a checkout would give others.

The packages ``byoc.codegen``, ``byoc.contrib`` and ``byoc.runtime`` stand beside the folder ``byoc`` in a checkout and
below it where byoc is installed (``package_dir`` in ``setup.cfg``). So a checkout that is not installed has no
``byoc.runtime``, and one that lies on the search path while another one is installed would have that one's. The other
way, their folders imported as top-level packages, each of them refuses in its own first lines.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

APART = ("codegen", "contrib", "runtime")
"""The packages that a checkout has beside the folder ``byoc``."""


def require_one_copy(package: Path) -> None:
    """Check that the packages of :data:`APART` belong to the folder *package*, from which ``byoc`` is imported.

    A part that was left out is not missed.

    Raises:
        ImportError: where one of them is there and is not found, or another copy's is.
    """
    real = package.resolve()
    for apart in APART:
        name = f"byoc.{apart}"
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:  # somebody keeps it from being imported, and knows
            continue
        if spec is None or spec.origin is None:
            if not (real.parent / apart / "__init__.py").is_file():  # a part that was left out
                continue
            raise ImportError(
                f"byoc is imported from the checkout {real.parent}, which is not installed and so has no {name}: run "
                f"`python -m pip install --editable .` in that folder, or start Python elsewhere if it is installed",
                name=name,
            )
        found = Path(spec.origin).parent
        if found.parent.resolve() not in (real, real.parent, package.parent.resolve()):  # any of them may be a link
            raise ImportError(
                f"byoc is imported from {real}, but {name} from {found}, another copy: start Python where only one of "
                f"them is on its search path, or run `python -m pip install --editable .` in {real.parent}",
                name=name,
            )
