"""Names that are registered by modules which are imported when somebody asks: the tables say what the modules do."""

import json
import subprocess
import sys

import pytest

from byoc.ir.op import OPS
from byoc.ir.registry import DeferredRegistry
from tools.health.deferred_names import tables
from tools.health.sources import ROOT

# what is asked of each operator in a process of its own, and of all after all modules were imported
EACH_ALONE = """
import json, os, sys
import numpy, onnx
import byoc.relay
from byoc.ir.op import OPS, Op

def facts(op):
    functions = [op.rel, op.compute, op.code_for, op.operations, op.infer_inputs]
    return [op.name, sorted(op._attr_map), sorted(op._attr_levels.items()), op.kernel, op.support_level, op.description,
            list(op.input_names), repr(op.traits), op.attrs_type and op.attrs_type.__name__, len(op.samples),
            [f and f.__qualname__ for f in functions]]

names = list(OPS)
assert not OPS.loaded()
for name in names:
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(read)
        op = OPS[name]
        assert type(op) is Op
        with os.fdopen(write, "w") as file:
            json.dump(facts(op), file)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        print(file.read())
    assert os.wait()[1] == 0, name
OPS.load_all()
print(json.dumps([facts(OPS[name]) for name in names]))
"""


def test_the_tables_name_what_the_modules_register():
    for file, text in tables().items():
        assert (ROOT / file).read_text(encoding="utf-8") == text, (
            f"{file} is not what the modules register: run python -m tools.health.deferred_names"
        )


@pytest.mark.slow
def test_an_operator_that_is_imported_alone_is_what_it_is_among_all():
    done = subprocess.run([sys.executable, "-c", EACH_ALONE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *alone, together = map(json.loads, done.stdout.splitlines())
    assert len(alone) > 300
    assert alone == together


def test_names_are_listed_without_importing_anything():
    code = (
        "import byoc.relay\nfrom byoc.ir.op import OPS\n"
        "assert 'nn.conv2d' in OPS and 'qnn.add' in set(OPS) and len(OPS) > 300\nassert OPS.loaded() == []"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_module_that_fails_is_asked_again(tmp_path, monkeypatch):
    registry: DeferredRegistry[int] = DeferredRegistry("colour")
    registry.defer({"red": ["colours_of_the_test"]})
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "colours_of_the_test.py").write_text("raise OSError('no paint')")
    with pytest.raises(OSError, match="no paint"):
        registry["red"]
    (tmp_path / "colours_of_the_test.py").write_text("")
    sys.modules["colours_of_the_test_registry"] = registry  # type: ignore[assignment]
    (tmp_path / "colours_of_the_test.py").write_text(
        "import sys\nsys.modules['colours_of_the_test_registry'].register('red', 1)\n" + "#" * 100
    )
    assert registry["red"] == 1
    assert list(registry) == ["red"] and len(registry) == 1


def test_lookups_by_many_threads_find_whole_operators():
    code = """
import threading
import byoc.relay
from byoc.ir.op import OPS
names = list(OPS)
whole, wrong, start = {}, [], threading.Barrier(8)

def ask(order):
    start.wait()
    for name in order:
        op = OPS[name]
        # an attribute that its module sets behind the registration
        complete = name != "dyn.reshape" or op.has_attr("FKnownShape")
        if op.rel is None or not op.has_attr("TOpPattern") or not complete:
            wrong.append(name)

threads = [threading.Thread(target=ask, args=(names[k * 37 :] + names[: k * 37],)) for k in range(8)]
[t.start() for t in threads]
[t.join(60) for t in threads]
assert not any(t.is_alive() for t in threads), "a lookup never ended"
assert wrong == [], wrong
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_the_registry_of_operators_defers():
    assert isinstance(OPS, DeferredRegistry)
