"""Models by NNSmith (Liu et al., ASPLOS 2023): an SMT solver chooses shapes so that every operator fits.

NNSmith 0.1 is from before PyTorch 2.9, whose ONNX exporter by default wants a package more; what it calls is therefore
given the older exporter. Its own command line, its gradient-guided search for inputs and its test oracles are not
used: inputs and expectations come from this package. Optional: ``pip install byoc-compiler[fuzz]``.
"""

from __future__ import annotations

import functools
import random
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper

from fuzz.case import Case
from fuzz.judge.oracle import NotApplicable, wanted

MOST_NODES, MOST_ELEMENTS, LIMIT_MS = 8, 2048, 10_000


def missing() -> str | None:
    """Why NNSmith cannot be used here, or None."""
    try:
        import nnsmith.graph_gen  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        return f"NNSmith is not installed ({error}): pip install byoc-compiler[fuzz]"
    return None


@functools.cache
def _library():
    """NNSmith's model class for ONNX and its operators; imports both packages, once."""
    warnings.simplefilter("ignore")
    import torch
    from nnsmith.materialize import Model

    exported = torch.onnx.export
    torch.onnx.export = functools.partial(exported, dynamo=False)
    torch.set_num_threads(1)
    kind = Model.init("onnx", backend_target="cpu")
    return kind, kind.operators()


def nnsmith(seed: int) -> Case:
    """The model of *seed*. Raises NotApplicable where NNSmith finds none, or PyTorch cannot export it."""
    problem = missing()
    if problem:
        raise NotApplicable(problem)
    import torch
    from nnsmith.abstract.dtype import DTYPE_GEN_ALL, DTYPE_GEN_COMPLEX
    from nnsmith.graph_gen import model_gen

    kind, operators = _library()
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    method = ("symbolic-cinit", "concolic")[seed % 2]
    try:
        found = model_gen(
            opset=operators,
            method=method,
            seed=seed,
            max_nodes=1 + seed % MOST_NODES,
            max_elem_per_tensor=MOST_ELEMENTS,
            timeout_ms=LIMIT_MS,
            dtype_choices=[dtype for dtype in DTYPE_GEN_ALL if dtype not in DTYPE_GEN_COMPLEX],
        )
        model = kind.from_gir(found.make_concrete())
        whole = model.native_model
    except Exception as error:  # of a generator that is not ours: any class is possible
        raise NotApplicable(f"NNSmith: {type(error).__name__}: {str(error)[:200]}") from error
    return case_from(whole, seed)


def case_from(model: onnx.ModelProto, seed: int) -> Case:
    """*model* with inputs drawn by *seed* and what is wanted of it."""
    model.ir_version = 9
    stored = {w.name for w in model.graph.initializer}
    numbers = np.random.default_rng(seed)
    feeds = {}
    for info in model.graph.input:
        if info.name in stored:
            continue
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        feeds[info.name] = drawn(numbers, shape, info.type.tensor_type.elem_type)
    return Case(f"nnsmith-{seed}", model, [feeds], wanted(model, [feeds]))


def drawn(numbers: np.random.Generator, shape: list[int], elem_type: int) -> np.ndarray:
    """Numbers between 1 and 2, where NNSmith's operators are defined; booleans and small integers."""
    dtype = helper.tensor_dtype_to_np_dtype(elem_type)
    if elem_type == TensorProto.BOOL:
        return np.asarray(numbers.random(shape) < 0.5)
    if dtype.kind in "iu":
        return np.asarray(numbers.integers(1, 5, shape)).astype(dtype)
    return np.asarray(numbers.uniform(1, 2, shape)).astype(dtype)
