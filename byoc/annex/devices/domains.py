"""Device domains: what is known of where each value is, joined by unification.

A first-order domain is a virtual device whose open parts may still be filled; that of a function has a domain for each
parameter and one for its result. Joining two domains makes them the same from then on. Source: Relay's
``DeviceDomains``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import UserError
from byoc.ir.types import FuncType, Type
from byoc.ir.virtual_device import UNCONSTRAINED, VirtualDevice


class DomainConflictError(UserError):
    """Two virtual devices for one value."""


class Domain:
    """Where a value is; of a function, where its parameters and its result are (``result`` is not None)."""

    __slots__ = ("device", "params", "parent", "result")

    def __init__(self, device: VirtualDevice = UNCONSTRAINED):
        self.parent: Domain | None = None
        self.device = device
        self.params: tuple[Domain, ...] = ()
        self.result: Domain | None = None

    @staticmethod
    def of_function(params: Sequence[Domain], result: Domain) -> Domain:
        """The domain of a function."""
        made = Domain()
        made.params, made.result = tuple(params), result
        return made

    @staticmethod
    def of_type(ty: Type, device: VirtualDevice = UNCONSTRAINED) -> Domain:
        """A new domain for values of *ty*: on *device*, for a function those of its (last) result."""
        if not isinstance(ty, FuncType):
            return Domain(device)
        return Domain.of_function([Domain.of_type(t) for t in ty.arg_types], Domain.of_type(ty.ret_type, device))

    def found(self) -> Domain:
        """The domain that this one has become."""
        node = self
        while node.parent is not None:
            if node.parent.parent is not None:
                node.parent = node.parent.parent
            node = node.parent
        return node

    def result_domain(self) -> Domain:
        """The first-order domain that a value, or the last result of a function, is in."""
        node = self.found()
        while node.result is not None:
            node = node.result.found()
        return node

    @property
    def result_device(self) -> VirtualDevice:
        """The virtual device of the value, or of the last result of a function."""
        return self.result_domain().device

    def flat(self) -> list[Domain]:
        """Its first-order domains: of each parameter and of the result."""
        node = self.found()
        if node.result is None:
            return [node]
        return [each for part in (*node.params, node.result) for each in part.flat()]


def unify(left: Domain, right: Domain) -> None:
    """Make both domains the same; a function and a value that are one have one device throughout.

    Raises DomainConflictError for two devices that contradict each other.
    """
    pending = [(left, right)]
    while pending:
        one, other = (each.found() for each in pending.pop())
        if one is other:
            continue
        if one.result is None and other.result is None:
            joined = one.device.joined(other.device)
            if joined is None:
                raise DomainConflictError(f"{one.device} and {other.device}")
            one.device, other.parent = joined, one
        elif one.result is not None and other.result is not None and len(one.params) == len(other.params):
            pending += [(one.result, other.result), *zip(one.params, other.params, strict=True)]
            other.parent = one
        else:
            unify_collapsed(one, other)


def unify_collapsed(left: Domain, right: Domain) -> None:
    """Put all that *left* and *right* consist of on one device: what a tuple or a reference holds, it is with."""
    first, *others = [*left.flat(), *right.flat()]
    for other in others:
        unify(first, other)


def set_default(domain: Domain, default: VirtualDevice) -> None:
    """Fill what is open: the result by *default*, then the parameters of a function by its result."""
    node = domain.found()
    _fill(node.result_domain(), default)
    if node.result is not None:
        for part in node.flat():
            _fill(part, node.result_device)


def _fill(domain: Domain, default: VirtualDevice) -> None:
    node = domain.found()
    node.device = node.device.or_default(default)
