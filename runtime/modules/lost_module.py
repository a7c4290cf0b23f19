"""A module that could not be loaded, whose symbols the host can run instead; a symbol's function, found."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from byoc.runtime.core.device import HardwareLevel
from byoc.runtime.core.entry_points import advice, source_of
from byoc.runtime.core.errors import (
    ArtifactError,
    DeviceError,
    UnavailableError,
    UserError,
    vendors_failure,
    vendors_text,
)
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.modules.module import OWN, SENTENCE_OR_NONE, Members, Module, PackedFunction, module_class
from byoc.runtime.region.known_outputs import has_known_outputs
from byoc.runtime.region.record import DEVICE, INITIALIZE, LOAD, StageError, running


class LostModule(Module):
    """In the place of a module of *type_key* that raised *error* while it was loaded.

    Each use of it loads the module again, which may succeed later (the vendor's package was imported meanwhile), and
    raises what that raises. Saved, it is what it was loaded from.
    """

    def __init__(
        self, type_key: str, symbols: Sequence[str], members: Members, load: Callable[[], Module], error: Exception
    ):
        super().__init__()
        self.type_key, self.symbols, self.error = type_key, tuple(symbols), error
        self._members, self._load = members, load
        self._module: Module | None = None

    def found(self) -> Module:
        """The module itself. Raises what its class raises while it is loaded."""
        if self._module is None:
            self._module = self._load()
        return self._module

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        return self.found().get_function(name, query_imports)

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        self.found().initialize(symbol, constants)

    def unavailable(self) -> str | None:
        """Why it cannot be loaded, in words, or what the module itself says where it now can."""
        try:
            return self.found().unavailable()
        except UserError as error:
            return str(error)
        except Exception as error:  # whatever a vendor's code raises
            return vendors_text(error)

    def level(self) -> HardwareLevel:
        try:
            return self.found().level()
        except Exception:  # whatever a vendor's code raises; ``unavailable`` states it
            return HardwareLevel.UNAVAILABLE

    def save(self) -> dict[str, bytes]:
        return {name: bytes(data) for name, data in self._members.items()}


def load_or_lose(type_key: str, symbols: Sequence[str], members: Members, load: Callable[[], Module]) -> Module:
    """What *load* gives, or a :class:`LostModule` in its place; :func:`check_lost` says whether that can be borne."""
    try:
        return load()
    except Exception as error:  # whatever a vendor's code raises
        return LostModule(type_key, symbols, members, load, error)
    except BaseException as error:
        reason = UnavailableError(f"modules of type {type_key!r} cannot be loaded: {vendors_failure(error)}")
        return LostModule(type_key, symbols, members, load, reason)


@contextlib.contextmanager
def naming_packages(packages: tuple[str, ...]) -> Iterator[None]:
    """Add to the error of a module that cannot be loaded here which of the *packages* that made it are missing."""
    try:
        yield
    except UnavailableError as error:
        if not advice(packages):
            raise
        raise UnavailableError(f"{error}{advice(packages)}") from error


def class_for(type_key: str) -> type[Module]:
    """The class that loads modules of *type_key*. Raises UnavailableError where none does, or it has no ``load``."""
    kind = module_class(type_key)
    written = {name for base in kind.__mro__ if base not in Module.__mro__ for name in vars(base)}
    if not written & {"load", "restore"}:
        raise UnavailableError(
            f"modules of type {type_key!r} cannot be loaded: their class {source_of(kind)} has no classmethod load"
        )
    return kind


@contextlib.contextmanager
def naming_loader(type_key: str) -> Iterator[None]:
    """Say of what a vendor's loader raises that it did, and where. Raises UnavailableError; byoc's own errors pass."""
    try:
        with running(f"a module of type {type_key!r} was loaded"):
            yield
    except UserError:
        raise
    except Exception as error:  # whatever a vendor's code raises
        if type_key in OWN:
            raise  # what byoc's own loaders stumble over is damaged
        raise UnavailableError(
            f"the loader of module type {type_key!r}, {source_of(module_class(type_key))}, failed with "
            f"{vendors_text(error)}"
        ) from error
    except BaseException as error:
        text = f"{source_of(module_class(type_key))}: {vendors_failure(error)}"
        raise UnavailableError(f"the loader of module type {type_key!r} failed, {text}") from error


def check_lost(root: Module, bears_missing: bool = False) -> None:
    """Raise the error of the first module of the tree that could not be loaded and that nothing stands in for.

    With *bears_missing* one whose backend is not here, or does not load it, may stay lost: the artefact is only looked
    into. Damaged members are reported all the same.
    """
    covered = covered_symbols(root)
    for module in root.walk():
        if isinstance(module, LostModule) and not is_covered(module, covered):
            is_damaged = isinstance(module.error, ArtifactError) and not isinstance(module.error, UnavailableError)
            if is_damaged or not bears_missing:
                raise module.error


def covered_symbols(root: Module) -> frozenset[str]:
    """The symbols in the tree for which another module stands in."""
    return frozenset(symbol for module in root.walk() for symbol in module.stands_for.values())


def is_covered(module: Module, covered: frozenset[str]) -> bool:
    """Whether all that *module* does the host can do instead: its symbols are among *covered*."""
    return bool(module.symbols) and covered.issuperset(module.symbols)


def problem_of(module: Module, covered: frozenset[str]) -> str | None:
    """Why *module* cannot run here, where nothing stands in for it, and nobody gives its outputs."""
    if is_covered(module, covered) or has_known_outputs(module.type_key, *module.symbols):
        return None
    return run_problem(module)


def run_problem(module: Module, ask: bool = True) -> str | None:
    """Why *module* cannot run here, in one sentence; without *ask* it is not asked whether it is ``unavailable``."""
    problem = _stated_problem(module) if ask else None
    if problem is None and not module.level().runs:
        return (
            f"modules of type {module.type_key!r} can be compiled on this machine and not run ({module.level()}): run "
            "the saved model where the device is, or give its outputs by byoc.runtime.known_outputs"
        )
    return problem


def _stated_problem(module: Module) -> str | None:
    """What ``unavailable`` of *module* says, or what is wrong with its answer."""
    place = f"unavailable() of the module {type(module).__name__}"
    try:
        found: object = module.unavailable()
    except BaseException as error:  # whatever a vendor's code raises
        return f"{place} failed: {vendors_text(vendors_failure(error))}; it must give {SENTENCE_OR_NONE}"
    if found is None or (isinstance(found, str) and found.strip()):
        return found
    return f"{place} gave {found!r}, expected {SENTENCE_OR_NONE}"


def load_function(owner: Module, symbol: str, initialize: Callable[[str], None], ask: bool) -> PackedFunction:
    """The function of *symbol*, which *initialize* gives its constants. Raises StageError.

    With *ask* its module says first whether it can run here.
    """
    stage = LOAD
    try:
        module = owner.found() if isinstance(owner, LostModule) else owner
        stage = DEVICE
        problem = run_problem(module, ask)
        if problem is not None:
            raise DeviceError(problem)
        stage = INITIALIZE
        initialize(symbol)
        stage = LOAD
        function = module.get_function(symbol)
        if not callable(function):
            given = "no function" if function is None else f"a {type(function).__name__}"
            raise ArtifactError(
                f"get_function({symbol!r}) of the module {type(module).__name__} gave {given}, expected what runs the "
                "region: it takes inputs and outputs, and fills these"
            )
    except BaseException as error:  # whatever a vendor's code raises
        raise StageError(stage, vendors_failure(error)) from error
    return function
