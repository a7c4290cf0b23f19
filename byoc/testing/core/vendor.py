"""Where a backend comes from, so that another process can have it too."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass

from byoc.contract.backend import Backend
from byoc.contract.importing import import_backend, imported_backends
from byoc.contract.registration import get_backend
from byoc.contract.relay_style import RelayStyleBackend
from byoc.errors import UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.partition.places.libraries import KernelLibrary, runnable


@dataclass(frozen=True)
class VendorOrigin:
    """A backend's name, its class as ``module.name``, the file of that module, and what was imported by its name."""

    name: str
    kind: str
    module: str
    file: str
    imports: tuple[str, ...]

    @property
    def is_of_this_process(self) -> bool:
        """Whether no import gives its class: it was typed at a prompt, stands in a script, or a function made it."""
        return not self.file or "<locals>" in self.kind


def origin_of(backend: Backend) -> VendorOrigin:
    """Where *backend* comes from; no file for what was typed at a prompt, or stands in a script that runs."""
    kind = type(backend)
    vendor = vendor_file(backend) or (kind.__module__, "")
    return VendorOrigin(backend.name, f"{kind.__module__}.{kind.__qualname__}", *vendor, imported_backends())


def vendor_file(backend: Backend | None) -> tuple[str, str] | None:
    """The module that has the backend's class, or its declared kernels, and its file; None for what was typed at a
    prompt.
    """
    if backend is None:
        return None
    name = module_of(backend)
    file = getattr(sys.modules.get(name), "__file__", None)
    return None if file is None or name in ("__main__", "builtins") else (name, file)


def module_of(backend: Backend) -> str:
    """The module that has the class of *backend*, or its declared kernels; ``builtins`` where no import brings them."""
    name = type(backend).__module__
    if isinstance(backend, KernelLibrary) and name.startswith("byoc."):
        functions = [k.run for k in runnable(backend.kernels_of) if callable(k.run)]
        if not functions or any("<locals>" in f.__qualname__ for f in functions):
            return "builtins"
        return functions[0].__module__
    return name


def written_in(backend: Backend) -> str:
    """The module of the vendor's own code: for an integration in Relay's style that of its generator."""
    generator = GLOBAL_FUNCTIONS.get(f"relay.ext.{backend.name}") if isinstance(backend, RelayStyleBackend) else None
    return module_of(backend) if generator is None else str(getattr(generator, "__module__", module_of(backend)))


def backend_from(origin: VendorOrigin) -> Backend:
    """The backend of *origin* in this process. Raises UserError where it is not found, or another has its name."""
    for named in origin.imports:
        import_backend(named)
    found = _registered(origin.name)
    if found is None and origin.file:
        import_module(origin.module, origin.file)
        found = _registered(origin.name)
    if found is None:
        raise UserError(f"importing {origin.module} does not register the backend {origin.name!r}")
    kind = f"{type(found).__module__}.{type(found).__qualname__}"
    if kind != origin.kind:
        raise UserError(f"the backend {origin.name!r} is a {kind} there, and not a {origin.kind}")
    return found


def _registered(name: str) -> Backend | None:
    try:
        return get_backend(name)
    except UserError:
        return None


def import_module(name: str, file: str) -> None:
    """Import a module by its *name*, or as it stands in *file*. Raises UserError for a file that cannot be imported."""
    try:
        importlib.import_module(name)
        return
    except ImportError:
        spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UserError(f"the vendor's file {file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a vendor's code raises
        del sys.modules[name]
        raise UserError(f"the vendor's file {file} cannot be imported: {type(error).__name__}: {error}") from error
