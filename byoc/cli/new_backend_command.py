"""``byoc new-backend``: a package that brings a backend, installs, and runs a region of a real model at once."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from byoc.contract.registration import backend_names
from byoc.errors import UserError

HELP = "write a package that brings a backend of your own"
TEMPLATES = "templates"
SUFFIX = ".template"
NAME = re.compile(r"[a-z][a-z0-9_]*")
SHARED = {  # what is written for every kind: the template, and where it goes
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "gitignore": ".gitignore",
    "ci.yml": ".github/workflows/ci.yml",
    "demo.py": "demo.py",
    "__init__.py": "byoc_acme/__init__.py",
    "test_acme.py": "tests/test_acme.py",
}
BACKEND, RUNTIME = {"backend.py": "byoc_acme/backend.py"}, {"runtime.py": "byoc_acme/runtime.py"}
RUNTIME_ENTRY = """
# what a saved model asks for when it runs, where no compiler is needed: by the name of the kernels or of the module
[project.entry-points."byoc.runtime"]
{brings}
"""
RUNTIME_ROW = (
    "| `byoc_acme/runtime.py` | what runs: it is imported where a saved model is loaded, and imports no compiler |\n"
)
MODEL = "digits.onnx"


@dataclass(frozen=True)
class BackendKind:
    """A way to bring a backend: what it is, its entry point of the runtime where it has code there, and what to replace
    first.
    """

    about: str
    brings: str
    advice: str

    @property
    def own(self) -> Mapping[str, str]:
        """What is the vendor's: the templates, and where they go."""
        return {**BACKEND, **(RUNTIME if self.brings else {})}


KINDS = {
    "kernels": BackendKind(
        "a kernel for each operator, in Python, C or OpenCL C",
        'acme_kernels = "byoc_acme.runtime:TABLE"',
        "The kernels in `runtime.py` are numpy's; put calls of your library there, one after the other. `backend.py` "
        "declares them with what they take, and has one in C; `OpenCLSource` declares one in OpenCL C.",
    ),
    "subgraph": BackendKind(
        "whole regions converted to a graph of your own",
        'acme = "byoc_acme.runtime:AcmeModule"',
        "`AcmeBackend.compile` writes a region as a graph of JSON; write your own form there, and run it in "
        "`AcmeModule.run`, in the place of `OPERATORS`, which numpy computes.",
    ),
    "source": BackendKind(
        "source text, compiled",
        "",
        "`SOURCE` in `backend.py` has the C of each operator; `compiled_region` makes one function of a region and "
        "compiles it. Saved models carry the library: nothing of acme is needed where they run.",
    ),
}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc new-backend``."""
    command.add_argument("name", help="what users will write after -t: lower-case letters, digits and _")
    kinds = "; ".join(f"{name}: {kind.about}" for name, kind in KINDS.items())
    first = next(iter(KINDS))
    command.add_argument("--kind", choices=KINDS, default=first, help=f"how it computes ({kinds}; default: {first})")
    command.add_argument("-o", "--output", metavar="FOLDER", help="where the package goes (default: byoc-NAME, here)")


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Write the package. Raises UserError for a name that is none or taken, and for a folder that is not empty."""
    name: str = arguments.name
    if not NAME.fullmatch(name):
        nearest = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        hint = f"; {nearest!r} would do" if NAME.fullmatch(nearest) else ""
        raise UserError(f"a backend's name is lower-case letters, digits and _, from a letter on, got {name!r}{hint}")
    if name in (*backend_names(), "host", "default"):
        raise UserError(f"a backend is called {name!r} already; choose another name")
    folder = Path(arguments.output or f"byoc-{name}")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder}: it is there already, and not an empty folder; choose another with --output")
    written = write_package(name, arguments.kind, folder)
    steps = (f"cd {shlex.quote(str(folder))}", "python -m pip install -e '.[test]'", "python demo.py", "pytest")
    page = f"byoc targets {name} --markdown -o docs/{name}.md"
    certificate = f"byoc certify {name} -o certificate.json"
    lines = [f"wrote {folder}: {KINDS[arguments.kind].about}", *(f"  {file}" for file in written), "next:"]
    lines += [f"  {step}" for step in (*steps, certificate, page)]
    return {"folder": str(folder), "kind": arguments.kind, "files": written}, "\n".join(lines), 0


def write_package(name: str, kind: str, folder: Path) -> list[str]:
    """Write the files of a package for the backend *name* to *folder*, and return their relative names."""
    advice = KINDS[kind]
    texts = {place: _template("shared", file).decode() for file, place in SHARED.items()}
    texts |= {place: _template(kind, file).decode() for file, place in advice.own.items()}
    entry, row = (RUNTIME_ENTRY.format(brings=advice.brings), RUNTIME_ROW) if advice.brings else ("", "")
    texts["pyproject.toml"] = texts["pyproject.toml"].replace("RUNTIME_ENTRY", entry)
    texts["README.md"] = texts["README.md"].replace("RUNTIME_ROW", row).replace("KIND_ADVICE", advice.advice)
    files = {_named(place, name): _named(text, name).encode() for place, text in texts.items()}
    files[MODEL] = _template("shared", MODEL, suffix="")
    page = f"# {name}\n\nWrite this page by `byoc targets {name} --markdown -o docs/{name}.md`.\n"
    files[f"docs/{name}.md"] = page.encode()
    try:
        for place, data in files.items():
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    except OSError as error:
        raise UserError(f"{folder}: the package cannot be written ({error.strerror}); choose another folder") from error
    return sorted(files)


def _template(folder: str, file: str, suffix: str = SUFFIX) -> bytes:
    return resources.files("byoc.cli").joinpath(f"{TEMPLATES}/{folder}/{file}{suffix}").read_bytes()


def _named(text: str, name: str) -> str:
    """*text* of a template, which is about ``acme``, about the backend *name*."""
    return text.replace("acme", name).replace("Acme", "".join(word.capitalize() for word in name.split("_")))
