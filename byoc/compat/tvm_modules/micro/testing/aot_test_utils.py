"""The runners of ahead-of-time tests. Source: ``tvm.micro.testing.aot_test_utils``."""

from __future__ import annotations

from byoc.compat.tvm_modules.testing.aot import AOTTestRunner

AOT_DEFAULT_RUNNER = AOTTestRunner()
# the simulator of a board: a test that names it can be loaded, and what it runs raises one sentence
AOT_CORSTONE300_RUNNER = AOTTestRunner(makefile="corstone300")
AOT_USMP_CORSTONE300_RUNNER = AOTTestRunner(makefile="corstone300", parameters={"USMP": "1"})


def parametrize_aot_options(test: object) -> object:
    """Run *test* for each way to call generated code: ``interface_api``, ``use_unpacked_api``, ``test_runner``.

    Source: ``parametrize_aot_options``.
    """
    import pytest

    cases = [("packed", False, AOT_DEFAULT_RUNNER), ("c", False, AOT_DEFAULT_RUNNER), ("c", True, AOT_DEFAULT_RUNNER)]
    return pytest.mark.parametrize(["interface_api", "use_unpacked_api", "test_runner"], cases)(test)


__all__ = [
    "AOT_CORSTONE300_RUNNER",
    "AOT_DEFAULT_RUNNER",
    "AOT_USMP_CORSTONE300_RUNNER",
    "parametrize_aot_options",
]
