"""Import names that modules were known by before they moved, and one copy of each module, however it is found.

``from byoc.relay.testing import resnet`` finds ``byoc.annex.testing``, and ``byoc.relay.testing.resnet`` is that very
module's ``resnet``, so that no class exists twice. Source: PEP 451.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

TYPE_CHECKING = False  # what type checkers take for true; typing's own would have to be imported
if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    Loader = MetaPathFinder = object  # importing the bases takes longer than all else that `import byoc` does

# known name -> where the module is; what is below a package follows it
MOVED = {
    "byoc.codegen.backend": "byoc.contract",
    "byoc.codegen.limits": "byoc.contract.limits",
    "byoc.codegen.signature": "byoc.contract.signature",
    "byoc.codegen.support_table": "byoc.contract.support_table",
    "byoc.codegen.verdict": "byoc.contract.verdict",
    "byoc.contrib.dnnl": "byoc.contrib.onednn.relay",
    "byoc.contrib.onednn.activations": "byoc.contrib.onednn.backend",
    "byoc.contrib.onednn.constraints": "byoc.contrib.onednn.backend",
    "byoc.contrib.onednn.window": "byoc.contrib.window",
    "byoc.contrib.torch.constraints": "byoc.contrib.torch.backend",
    "byoc.contrib.torch.device": "byoc.contrib.torch.module",
    "byoc.contrib.torch.program": "byoc.contrib.torch.module",
    "byoc.contrib.xnnpack.flatbuffer": "byoc.contrib.flatbuffer",
    "byoc.contrib.xnnpack.network": "byoc.contrib.xnnpack.backend",
    "byoc.contrib.xnnpack.tflite": "byoc.contrib.tflite",
    "byoc.driver.cli": "byoc.cli",
    "byoc.driver.compile": "byoc.driver.compiler.compile",
    "byoc.driver.entry": "byoc.driver.compiler.entry",
    "byoc.driver.export_c": "byoc.driver.compiler.export_c",
    "byoc.driver.integers": "byoc.driver.compiler.integers",
    "byoc.driver.planning": "byoc.driver.compiler.module_plan",
    "byoc.driver.target_quantization": "byoc.driver.compiler.target_quantization",
    "byoc.ir.adt": "byoc.ir.expr",
    "byoc.ir.compilation_config": "byoc.annex.devices.compilation_config",
    "byoc.ir.instrument": "byoc.ir.passes.instrument",
    "byoc.ir.passes.law": "byoc.ir.passes.pass_info",
    "byoc.ir.passes.pass_forms": "byoc.ir.passes.pass_info",
    "byoc.ir.transform": "byoc.ir.passes.transform",
    "byoc.partition.casting": "byoc.partition.cut.casting",
    "byoc.partition.decision": "byoc.partition.calls",
    "byoc.partition.dataflow": "byoc.partition.policy.dataflow",
    "byoc.partition.places.place": "byoc.partition.place",
    "byoc.partition.plan.decision": "byoc.partition.calls",
    "byoc.partition.plan.difference": "byoc.partition.content.difference",
    "byoc.partition.plan.explanation": "byoc.partition.content.explanation",
    "byoc.partition.plan.plan_json": "byoc.partition.content.plan_json",
    "byoc.partition.plan.planned": "byoc.partition.content.region_measures",
    "byoc.partition.plan.problem": "byoc.partition.problem",
    "byoc.partition.plan.replanning": "byoc.partition.content.plan_origin",
    "byoc.partition.plan.request": "byoc.partition.content.plan_origin",
    "byoc.partition.plan.typed_json": "byoc.partition.content.typed_json",
    "byoc.partition.policy.cut": "byoc.partition.cut.annotate",
    "byoc.partition.policy.decide": "byoc.partition.cut.decide",
    "byoc.partition.policy.matches": "byoc.partition.cut.matches",
    "byoc.partition.policy.outlay": "byoc.partition.cut.cost_breakdown",
    "byoc.partition.policy.planner": "byoc.partition.plan.planner",
    "byoc.partition.policy.preference": "byoc.partition.cut.preference",
    "byoc.partition.policy.refused_matches": "byoc.partition.cut.refused_matches",
    "byoc.partition.regions": "byoc.partition.cut.regions",
    "byoc.relay.analysis.annotated_regions": "byoc.relay.analysis.regions.annotated_regions",
    "byoc.relay.analysis.call_graph": "byoc.annex.analysis.call_graph",
    "byoc.relay.collage": "byoc.annex.collage",
    "byoc.relay.data_dep_optimization": "byoc.annex.data_dep_optimization",
    "byoc.relay.frontend.onnx.importer": "byoc.relay.frontend.onnx_importer",
    "byoc.relay.node_json": "byoc.annex.node_json",
    "byoc.relay.op.contrib.bnns": "byoc.contrib.bnns",
    "byoc.relay.op.contrib.dnnl": "byoc.contrib.onednn.relay",
    "byoc.relay.op.gradients": "byoc.annex.gradients.rules",
    "byoc.relay.prelude": "byoc.relay.std.prelude",
    "byoc.relay.qnn.op.legalizations": "byoc.relay.qnn.legalizations",
    "byoc.relay.quantize": "byoc.relay.qnn.quantize",
    "byoc.relay.structural": "byoc.relay.structure.structural",
    "byoc.relay.testing": "byoc.annex.testing",
    "byoc.relay.transform.fake_quantization_to_integer": "byoc.relay.qnn.fake.fake_quantization_to_integer",
    "byoc.relay.transform.infer_layout_utils": "byoc.relay.transform.layout.convert_layout_rules",
    "byoc.relay.transform.recast": "byoc.annex.recast",
    "byoc.runtime.artefact.consistency": "byoc.runtime.consistency",
    "byoc.runtime.artefact.strict_json": "byoc.runtime.core.strict_json",
    "byoc.runtime.benchmark": "byoc.runtime.core.benchmark",
    "byoc.runtime.build_limit": "byoc.runtime.core.time_limit",
    "byoc.runtime.container": "byoc.runtime.core.container",
    "byoc.runtime.distribution": "byoc.runtime.core.entry_points",
    "byoc.runtime.dso.processor": "byoc.runtime.core.processor",
    "byoc.runtime.errors": "byoc.runtime.core.errors",
    "byoc.runtime.executors.aot": "byoc.runtime.dso.aot",
    "byoc.runtime.executors.executor_base": "byoc.runtime.graph.executor_base",
    "byoc.runtime.executors.graph": "byoc.runtime.graph.graph",
    "byoc.runtime.executors.graph_check": "byoc.runtime.graph.graph_check",
    "byoc.runtime.executors.memory_plan": "byoc.runtime.graph.memory_plan",
    "byoc.runtime.executors.overlap": "byoc.runtime.graph.overlap",
    "byoc.runtime.fork": "byoc.runtime.core.fork",
    "byoc.runtime.index_errors": "byoc.runtime.core.errors",
    "byoc.runtime.metadata": "byoc.runtime.modules.metadata",
    "byoc.runtime.module": "byoc.runtime.modules.module",
    "byoc.runtime.ndarray": "byoc.runtime.core.ndarray",
    "byoc.runtime.region.lost": "byoc.runtime.modules.lost_module",
    "byoc.runtime.signature": "byoc.runtime.core.signature",
    "byoc.runtime.time_limit": "byoc.runtime.core.time_limit",
}


def home_of(name: str) -> str:
    """Where the module that is known as *name* stands; *name* itself where it did not move."""
    known = name
    while known:
        if known in MOVED:
            return MOVED[known] + name[len(known) :]
        known = known.rpartition(".")[0]
    return name


class AliasLoader(Loader):
    """Gives a module that is loaded already (or is now, under its own name) for another name."""

    def __init__(self, home: str):
        self._home = home
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(self._home)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has put the alias's there


class MovedFinder(MetaPathFinder):
    """Finds the modules of :data:`MOVED` under the names that they were known by."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        home = home_of(fullname)
        return None if home == fullname else ModuleSpec(fullname, AliasLoader(home), is_package=True)


def install() -> None:
    """Put the finder before Python's own, once."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedFinder())


# Refusals of a second copy of our modules. A checkout has the packages of APART beside the folder ``byoc``, an
# installed byoc below it (``package_dir`` in ``setup.cfg``): a checkout that is not installed has no ``byoc.runtime``,
# and one on the search path beside an installed byoc would get that one's. Imported as top-level packages, these
# folders refuse in their own first lines.

APART = ("codegen", "contrib", "runtime")
"""The packages that a checkout has beside the folder ``byoc``."""


def require_one_copy(package: Path) -> None:
    """Check that the packages of :data:`APART` belong to the folder *package*, from which ``byoc`` is imported.

    A part that was left out is not missed.

    Raises:
        ImportError: where one of them is there and is not found, or another copy's is.
    """
    real = package.resolve()
    for apart in APART:
        name = f"byoc.{apart}"
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:  # somebody keeps it from being imported, and knows
            continue
        if spec is None or spec.origin is None:
            if not (real.parent / apart / "__init__.py").is_file():  # a part that was left out
                continue
            raise ImportError(
                f"byoc is imported from the checkout {real.parent}, which is not installed and so has no {name}: run "
                f"`python -m pip install --editable .` in that folder, or start Python elsewhere if it is installed",
                name=name,
            )
        found = Path(spec.origin).parent
        if found.parent.resolve() not in (real, real.parent, package.parent.resolve()):  # any of them may be a link
            raise ImportError(
                f"byoc is imported from {real}, but {name} from {found}, another copy: start Python where only one of "
                f"them is on its search path, or run `python -m pip install --editable .` in {real.parent}",
                name=name,
            )
