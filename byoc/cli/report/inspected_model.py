"""What ``byoc inspect`` says of a model, which it imports and simplifies for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from byoc.contract.signature import spec_of
from byoc.driver.compiler.integers import simplified
from byoc.driver.compiler.module_plan import accelerators
from byoc.driver.model import module_of
from byoc.driver.pipeline import optimize
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import tensor_types
from byoc.relay.expr import Call, Function
from byoc.relay.traverse import post_order


def inspect_model(path: Path, text: bool, targets: Sequence[str] = ()) -> tuple[Mapping[str, object], str, int]:
    """Inputs, outputs and operators of a model, as imported and as simplified for *targets*."""
    mod = module_of(path)
    before = _operators(mod)
    mod = simplified(mod, accelerators(targets)) if targets else optimize(mod)
    after = _operators(mod)
    main = mod["main"]
    assert isinstance(main, Function)
    inputs = [spec_of(p.name_hint, t) for p in main.params for t in tensor_types(p.checked_type)]
    given = main.attrs.get("output_names")
    names = [str(n) for n in given] if isinstance(given, (list, tuple)) else []
    outputs = [spec_of(n, t) for n, t in zip(names, tensor_types(main.body.checked_type), strict=False)]
    data = {
        "inputs": [s.to_json() for s in inputs],
        "outputs": [s.to_json() for s in outputs],
        "operators": before,
        "operators_simplified": after,
    }
    lines = [
        *(f"input   {s.name}: {s.dtype}{s}" for s in inputs),
        *(f"output  {s.name}: {s.dtype}{s}" for s in outputs),
        f"operators: {sum(before.values())} imported, {sum(after.values())} after simplification",
        *(f"  {count:5d}  {name}" for name, count in after.items()),
    ]
    return data, mod.astext(show_meta_data=False) if text else "\n".join(lines), 0


def _operators(mod: IRModule) -> dict[str, int]:
    names = Counter(
        node.op.name for node in post_order(mod["main"]) if isinstance(node, Call) and isinstance(node.op, Op)
    )
    return dict(sorted(names.items(), key=lambda item: (-item[1], item[0])))
