"""Numpy kernels write to nothing that they are given: every operator's samples, in arrays that refuse to be written."""

import numpy as np
import pytest

import byoc.relay.op  # noqa: F401 - registers the operators
from byoc.ir.op import OPS
from byoc.runtime.kernels.core.registry import get_kernel

SAMPLED = [name for name in sorted(OPS) if OPS[name].samples and OPS[name].kernel and not name.startswith("test_")]


def frozen(item):
    """The arrays of *item*, read-only."""
    if isinstance(item, list):
        return [frozen(part) for part in item]
    array = np.array(item)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("name", SAMPLED)
def test_a_kernel_only_reads_its_inputs(name):
    op = OPS[name]
    for sample in op.samples:
        attrs = op.attrs_type(**sample.attrs).as_dict() if op.attrs_type else {}
        with np.errstate(all="ignore"):
            get_kernel(op.kernel)(*map(frozen, sample.arrays()), **attrs)
