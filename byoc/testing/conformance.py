"""The certification of a backend as tests of pytest: two lines in a vendor's test file.

    from byoc.testing import conformance_tests
    test_acme_conforms = conformance_tests("acme")

There is one test for each operator and each pattern that the backend takes, so that a failure names what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from byoc.contract.checks import pattern_entries
from byoc.contract.registration import get_backend
from byoc.contract.support_table import supported_ops
from byoc.testing.certifying import certify
from byoc.testing.checks import FALLBACK


def conformance_tests(
    backend: str,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    tolerance: Mapping[str, float] | None = None,
    saved: bool = True,
) -> Callable[[str], None]:
    """A test of each operator and pattern that *backend* takes; assign it to a name that begins with ``test_``.

    Args:
        backend: the name under which it is registered; the file that registers it is imported before.
        only: the operators and patterns, where not all are meant.
        skip: checks to leave out, as of :func:`certify`.
        tolerance: by dtype, as of :func:`certify`.
        saved: load each case in another process too.

    Raises:
        PartitionError: no backend has this name.
    """
    import pytest

    known = get_backend(backend)
    names = list(only) or [*supported_ops(known), *(e.name for e in pattern_entries(known))]

    @pytest.mark.parametrize("what", names)
    def test(what: str) -> None:
        asked = (*skip, FALLBACK) if what != names[0] and FALLBACK not in skip else skip
        found = certify(backend, only=[what], skip=asked, tolerance=tolerance, saved=saved)
        assert not found.failures, str(found)

    test.__doc__ = f"What the backend {backend} takes, it computes: the cases of byoc.testing.certify."
    return test
