"""Every schedule of C against numpy: odd sizes, tails, moved-back tiles, symbolic sizes, all dtypes, NaNs, empties.

Programs are made by hand from tensor expressions, so that shapes hit each schedule; all are compiled into one library.
"""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest
from schedule_cases import CASES

from byoc.codegen.c.emit import emit_programs
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.prepare import prepare
from byoc.runtime.dso.module import DsoModule

pytestmark = pytest.mark.needs_cc
FLAGS = ("-Wall", "-Wextra", "-Werror", "-Wno-psabi", *os.environ.get("BYOC_TEST_CFLAGS", "").split())
MACHINES = {"avx512": Machine(64, 24), "avx": Machine(32, 12), "sse": Machine()}


@pytest.fixture(
    scope="module",
    params=[
        "avx512",
        "avx",
        pytest.param("sse", marks=pytest.mark.optimized),  # GCC takes a sixth of the time that it takes for avx512
        pytest.param("avx512 optimized", marks=[pytest.mark.optimized, pytest.mark.slow]),
    ],
)
def module(request):
    """All cases in one library, written for one machine."""
    machine = MACHINES[request.param.split()[0]]
    programs = [prepare(case.program(f"case_{k}"), machine) for k, case in enumerate(CASES.values())]
    source = emit_programs(programs, machine)
    return DsoModule(find_compiler().build(source, FLAGS), [p.signature for p in programs], source)


@pytest.mark.parametrize("name", list(CASES))
def test_a_schedule_computes_what_numpy_computes(name, module):
    case = CASES[name]
    arrays = case.arrays()
    want = np.asarray(case.expected(*arrays))
    symbol = f"case_{list(CASES).index(name)}"
    got = np.full(want.shape, 77, module.signatures[symbol].outputs[0].dtype)
    module[symbol](*arrays, got)
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=2e-5 if got.dtype == np.float32 else 1e-12, atol=1e-4)
    else:
        np.testing.assert_array_equal(got, want.astype(got.dtype))


class _Team(ctypes.Structure):
    _fields_ = [
        ("thread", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("meeting", ctypes.c_void_p),
        ("run", ctypes.c_void_p),
    ]


ALONE = [n for n, c in CASES.items() if c.symbols is None and len(c.program("f").groups[0].stages) == 1]


@pytest.fixture(scope="module")
def team_library(tmp_path_factory):
    """The cases of one stage, in which no thread waits for another: a team may run one after the other."""
    source = emit_programs([CASES[name].program(f"case_{k}") for k, name in enumerate(ALONE)], MACHINES["avx512"])
    path = tmp_path_factory.mktemp("team") / "team.so"
    path.write_bytes(find_compiler().build(source, FLAGS))
    return ctypes.CDLL(str(path))


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("name", ALONE)
def test_a_team_computes_the_same_bits_as_one_thread(name, threads, team_library):
    case = CASES[name]
    arrays, out = case.arrays(), case.program("f").outputs[0]
    meeting, state = np.zeros(64, np.int32), np.zeros(32, np.int64)

    def run(team: int) -> np.ndarray:
        result = np.full([int(d) for d in out.shape], 77, out.dtype)
        args = (ctypes.c_void_p * (len(arrays) + 1))(*(a.ctypes.data for a in (*arrays, result)))
        for thread in range(team):
            member = _Team(thread, team, meeting.ctypes.data, state.ctypes.data)
            getattr(team_library, f"case_{ALONE.index(name)}")(args, None, None, ctypes.byref(member))
        return result

    assert run(threads).tobytes() == run(1).tobytes()


def test_the_same_programs_give_the_same_source_twice():
    programs = [[case.program(f"case_{k}") for k, case in enumerate(CASES.values())] for _ in range(2)]
    first, second = (emit_programs(p, MACHINES["avx512"]) for p in programs)
    assert first == second
