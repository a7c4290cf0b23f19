"""Ahead-of-time tests: a module becomes C, a program is built of it and run on inputs. Source: ``tvm.testing.aot``.

The C is that of ``byoc.export_c``: portable C99 with a program that reads and writes files. Regions of ``ccompiler``
are part of it. A region of another code generator has no C that stands alone: then the whole is built for the executor
``aot``, saved, loaded again and run.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from byoc.compat.tvm.below import NotHereError
from byoc.compat.tvm_modules.relay.backend import Executor, Runtime
from byoc.compat.tvm_modules.relay.backend.executor_factory import ExecutorFactoryModule
from byoc.compat.tvm_modules.relay.backend.targets import TargetLike
from byoc.compat.tvm_modules.relay.build_module import build, create_executor
from byoc.compat.tvm_modules.runtime import GraphFunctions, load_module
from byoc.compat.tvm_modules.runtime.executor.aot_executor import AotModule
from byoc.compat.tvm_modules.testing.aot_program import has_regions, run_program, with_c_inlined
from byoc.compat.tvm_modules.testing.comparison import get_dtype_range
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.relay.bind import module_with_params
from byoc.relay.expr import Function
from byoc.runtime.core.device import cpu

INTERFACES = ("c", "packed")
_TOLERANCE = 1e-3  # of floats where a model says none, as TVM's generated program has it


@dataclass(frozen=True)
class AOTTestRunner:
    """How a program is built and run. Source: ``tvm.testing.aot.AOTTestRunner``.

    *makefile* is ``default``, this machine; TVM's other values are simulators of boards. *prologue*, *epilogue*,
    *includes* and *parameters* are C and settings of such a simulator's program; *pass_config* is for the build.
    """

    makefile: str = "default"
    prologue: str = ""
    epilogue: str = ""
    includes: Sequence[str] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    pass_config: Mapping[str, object] = field(default_factory=dict)


class AOTTestModel(NamedTuple):
    """A module with *inputs* by name and the *outputs* that are wanted, in order or by name.

    *outputs* may differ by *output_tolerance*: floats by 1e-3 and integers not at all where none is given. *params* are
    bound by name. Source: ``tvm.testing.aot.AOTTestModel``.
    """

    module: IRModule
    inputs: Mapping[str, np.ndarray]
    outputs: Sequence[np.ndarray] | Mapping[str, np.ndarray]
    output_tolerance: int | float | None = None
    name: str = "default"
    params: Mapping[str, object] | None = None
    extra_memory_in_bytes: int = 0


class AOTCompiledTestModel(NamedTuple):
    """A model, built. Source: ``tvm.testing.aot.AOTCompiledTestModel``."""

    model: AOTTestModel
    executor_factory: ExecutorFactoryModule


def compile_models(
    models: AOTTestModel | Sequence[AOTTestModel],
    interface_api: str = "c",
    use_unpacked_api: bool = True,
    target: TargetLike = "c",
    runtime: Runtime | None = None,
    **options: object,
) -> list[AOTCompiledTestModel]:
    """Build *models* ahead of time.

    How TVM's C calls its functions (*interface_api*, *use_unpacked_api*, and *options* of alignment and memory) has
    no counterpart here: each is taken, none changes the results. Raises UserError for an unknown interface, and what
    ``relay.build`` raises. Source: ``tvm.testing.aot.compile_models``.
    """
    if interface_api not in INTERFACES:
        raise UserError(f"interface_api is one of {', '.join(INTERFACES)}, got {interface_api!r}")
    given = [models] if isinstance(models, AOTTestModel) else list(models)
    return [
        AOTCompiledTestModel(
            model,
            build(
                model.module,
                target,
                executor=Executor("aot"),
                runtime=runtime,
                params=model.params,
                mod_name=model.name,
            ),
        )
        for model in given
    ]


def run_and_check(
    models: AOTCompiledTestModel | Sequence[AOTCompiledTestModel],
    runner: AOTTestRunner = AOTTestRunner(),
    interface_api: str = "c",
    test_dir: str | os.PathLike[str] | None = None,
    checker: Callable[[str], bool] | None = None,
    **options: object,
) -> bool:
    """Run built *models* and compare their outputs with those wanted; True where they agree.

    *test_dir* keeps the C and its program; *checker* is asked of what the program printed instead of the outputs.
    Raises AssertionError naming the output that differs, NotHereError for the simulator of a board. Source:
    ``tvm.testing.aot.run_and_check``.
    """
    if runner.makefile != "default":
        raise NotHereError(
            f"the runner {runner.makefile!r} is a simulator of a board, and byoc has none: use AOT_DEFAULT_RUNNER"
        )
    given = [models] if isinstance(models, AOTCompiledTestModel) else list(models)
    for index, compiled in enumerate(given):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(test_dir) / f"{index}_{compiled.model.name}" if test_dir is not None else Path(temporary)
            outputs, printed = _run(compiled, folder)
            if checker is not None:
                if not checker(printed):
                    raise AssertionError(f"{compiled.model.name}: the checker refused what the program printed")
            else:
                _compare(compiled.model, outputs)
    return True


def compile_and_run(
    models: AOTTestModel | Sequence[AOTTestModel],
    runner: AOTTestRunner = AOTTestRunner(),
    interface_api: str = "c",
    use_unpacked_api: bool = True,
    target: TargetLike = "c",
    test_dir: str | os.PathLike[str] | None = None,
    checker: Callable[[str], bool] | None = None,
    runtime: Runtime | None = None,
    **options: object,
) -> bool:
    """As :func:`compile_models`, then :func:`run_and_check`. Source: ``tvm.testing.aot.compile_and_run``."""
    compiled = compile_models(models, interface_api, use_unpacked_api, target, runtime, **options)
    return run_and_check(compiled, runner, interface_api, test_dir, checker)


def generate_ref_data(
    mod: IRModule | Function,
    input_data: Mapping[str, np.ndarray],
    params: Mapping[str, object] | None = None,
    target: TargetLike = "llvm",
) -> dict[str, np.ndarray]:
    """The outputs of *mod* on *input_data*, by names ``output``, ``output2`` and on. Source: ``generate_ref_data``."""
    run: Any = create_executor("graph", module_with_params(mod, params), target=target).evaluate()
    found = run(**{name: np.asarray(value) for name, value in input_data.items()})
    values = found if isinstance(found, list) else [found]
    return {f"output{i + 1 if i else ''}": value.numpy() for i, value in enumerate(values)}


def _run(compiled: AOTCompiledTestModel, folder: Path) -> tuple[list[np.ndarray], str]:
    """The outputs in order, and what the program printed."""
    model = compiled.model
    mod = with_c_inlined(module_with_params(model.module, model.params))
    main = mod["main"]
    assert isinstance(main, Function)
    inputs = {param.name_hint: _input(model, param.name_hint) for param in main.params}
    if not has_regions(mod):
        return run_program(mod, folder, list(inputs.values()))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{model.name}.byoc"
    compiled.executor_factory.export_library(path)
    functions = load_module(path)["default"](cpu())
    assert isinstance(functions, GraphFunctions)
    made = AotModule(functions)
    made.run(**inputs)
    return [made.get_output(k).numpy() for k in range(made.get_num_outputs())], ""


def _compare(model: AOTTestModel, found: Sequence[np.ndarray]) -> None:
    wanted = list(model.outputs.values()) if isinstance(model.outputs, Mapping) else list(model.outputs)
    if len(wanted) != len(found):
        raise AssertionError(f"{model.name} has {len(found)} outputs, {len(wanted)} are wanted")
    for index, (value, want) in enumerate(zip(found, map(np.asarray, wanted), strict=True)):
        tolerance = model.output_tolerance
        if tolerance is None:
            tolerance = _TOLERANCE if value.dtype.kind == "f" else 0
        np.testing.assert_allclose(
            value.astype("float64"),
            want.reshape(value.shape).astype("float64"),
            rtol=0,
            atol=tolerance,
            err_msg=f"output {index} of {model.name}",
        )


def _input(model: AOTTestModel, name: str) -> np.ndarray:
    if name not in model.inputs:
        given = ", ".join(model.inputs) or "none"
        raise UserError(f"{model.name}: main takes {name!r}, for which there is no input; given: {given}")
    return np.asarray(model.inputs[name])


__all__ = [
    "AOTCompiledTestModel",
    "AOTTestModel",
    "AOTTestRunner",
    "compile_and_run",
    "compile_models",
    "generate_ref_data",
    "get_dtype_range",
    "run_and_check",
]
