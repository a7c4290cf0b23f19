"""The certification of a backend as tests of pytest: two lines in a vendor's test file.

    from byoc.testing import conformance_tests
    test_acme_conforms = conformance_tests("acme")

There is one test for each operator and each pattern that the backend takes, so that a failure names what is wrong. The
worker process of the first serves the others, and ends with Python.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping, Sequence

from byoc.contract.backend import Backend
from byoc.contract.checks import pattern_entries
from byoc.contract.registration import get_backend
from byoc.contract.support_table import supported_ops
from byoc.testing.certifying import certified, checked_backend, worker_pool
from byoc.testing.checks import FALLBACK
from byoc.testing.core.worker_pool import WorkerPool
from byoc.testing.options import CertifyRequest


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
    pools: dict[Backend, WorkerPool] = {}  # of the backend as it is registered now
    names = list(only) or [*supported_ops(known), *(e.name for e in pattern_entries(known))]

    @pytest.mark.parametrize("what", names)
    def test(what: str) -> None:
        asked = (*skip, FALLBACK) if what != names[0] and FALLBACK not in skip else skip
        request = CertifyRequest(backend, only=[what], skip=asked, tolerance=tolerance, saved=saved)
        there = checked_backend(request)
        if there not in pools:
            _close(pools)
            pools[there] = worker_pool(request, there)
            atexit.register(pools[there].close)
        found = certified(request, there, pools[there])
        if found.unfinished:  # without a limit of time: somebody interrupted it
            raise KeyboardInterrupt
        assert not found.failures, str(found)

    test.__doc__ = f"What the backend {backend} takes, it computes: the cases of byoc.testing.certify."
    return test


def _close(pools: dict[Backend, WorkerPool]) -> None:
    while pools:
        pool = pools.popitem()[1]
        pool.close()
        atexit.unregister(pool.close)
