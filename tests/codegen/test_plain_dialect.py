"""Every operator with an expression or a routine in C99 alone: compiled pedantically, free of undefined behaviour.

The samples stand in one source, each as a function of pointers to all its tensors: the first of each operator, in the
slow test all. Their results are those of the numpy kernels, with the tolerances of ``test_c_every_operator.py``.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

import byoc.relay.op
import byoc.runtime.kernels  # noqa: F401 - registers the kernels
from byoc.codegen.c.backend import lower_to_c, no_code_reason
from byoc.codegen.c.language.dialect import PLAIN_MACHINE, Dialect
from byoc.codegen.c.routines.registry import find_routine
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.c.whole.unit import Units, function_texts
from byoc.ir.op import OPS
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.expr import Call, Function, Tuple, Var
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.kernels.core.registry import get_kernel

PLAIN = Dialect(plain=True, team=False, wide=False)
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-fPIC", "-shared")
HEADERS = "".join(f"#include <{h}>\n" for h in ("math.h", "stdbool.h", "stdint.h", "string.h"))
pytestmark = [
    pytest.mark.needs_cc,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
]


def _flat(arrays):
    return [np.asarray(a, order="C") for item in arrays for a in (item if isinstance(item, list) else [item])]


def _function(op, sample):
    params, args = [], []
    for item in sample.arrays():
        group = []
        for array in item if isinstance(item, list) else [item]:
            group.append(Var(f"x{len(params) + len(group)}", TensorType(np.shape(array), str(np.asarray(array).dtype))))
        params += group
        args.append(Tuple(group) if isinstance(item, list) else group[0])
    return Function(params, Call(op, args, op.attrs_type(**sample.attrs) if op.attrs_type else None))


def _cases(most):
    """The samples by name, at most so many of an operator."""
    ops = [OPS[name] for name in sorted(OPS) if not name.startswith("test_")]
    ops = [op for op in ops if op.compute or find_routine(op)]
    cases = {f"{op.name}[{k}]": (op, s, _function(op, s)) for op in ops for k, s in enumerate(op.samples[:most])}
    return {name: case for name, case in cases.items() if no_code_reason(case[2]) is None}


def _source(programs):
    """One source: the functions of all groups, and ``case_<k>(void **)``, which calls those of program k."""
    units = Units(PLAIN_MACHINE, PLAIN)
    calls = [units.calls(p) for p in programs]
    used = {c.unit.name: c.unit for made in calls for c in made}
    helpers = dict.fromkeys(h for u in used.values() for h in u.helpers)
    assert not any(u.vectors for u in used.values())
    parts = [HEADERS, *(PLAIN.language.support[n](dtype) for n, dtype in helpers)]
    parts += [*function_texts(list(used.values())), *(f"static {u.text}" for u in used.values())]
    for k, (program, made) in enumerate(zip(programs, calls, strict=True)):
        place = {t: f"args[{i}]" for i, t in enumerate(_tensors(program))}
        lines = ["int outside[1];", "(void)outside;"]
        lines += [
            f"{c.unit.name}({', '.join([*(place[t] for t in (*c.sources, *c.stages)), *_checks(c)])});" for c in made
        ]
        parts.append(f"void case_{k}(void **args);\nvoid case_{k}(void **args) {{\n" + "\n".join(lines) + "\n}\n")
    return "\n".join(parts)


def _checks(call):
    return PLAIN.check_arguments([0] * len(call.checks))


def _tensors(program):
    return (*program.inputs, *(t for t, _ in program.constants), *program.outputs, *program.temporaries)


@pytest.mark.parametrize(
    ("most", "fewest"), [(1, 200), pytest.param(None, 500, marks=pytest.mark.slow)], ids=["one sample", "all samples"]
)
def test_every_operator_in_plain_c_gives_what_its_numpy_kernel_gives(tmp_path, capfd, most, fewest):
    cases = _cases(most)
    assert len(cases) > fewest
    programs = [prepare(lower_to_c(f, f"case_{k}"), PLAIN_MACHINE) for k, (_, _, f) in enumerate(cases.values())]
    (tmp_path / "cases.c").write_text(_source(programs))
    command = ["gcc", *FLAGS, "-fsanitize=undefined", "cases.c", "-o", "cases.so", "-lm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    library = ctypes.CDLL(str(tmp_path / "cases.so"))
    capfd.readouterr()
    for k, (name, (op, sample, function)) in enumerate(cases.items()):
        program = programs[k]
        arrays = _flat(sample.arrays()) + [d.numpy() for _, d in program.constants]
        outputs = [np.empty(t.shape, t.dtype) for t in tensor_types(function.body.checked_type)]
        rest = [np.empty(t.shape, numpy_dtype(t.dtype)) for t in program.temporaries]
        pointers = [a.ctypes.data for a in (*arrays, *outputs, *rest)]
        getattr(library, f"case_{k}")((ctypes.c_void_p * len(pointers))(*pointers))
        with np.errstate(all="ignore"):
            attrs = op.attrs_type(**sample.attrs).as_dict() if op.attrs_type else {}
            wanted = get_kernel(op.kernel)(*sample.arrays(), **attrs)
        for got, want in zip(outputs, wanted if isinstance(wanted, (tuple, list)) else [wanted], strict=True):
            if got.dtype.kind == "f":
                tolerance = 2e-5 if got.dtype == np.float32 else 1e-9
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=name)
            else:
                np.testing.assert_array_equal(got, want, err_msg=name)
        assert "runtime error" not in capfd.readouterr().err, name
