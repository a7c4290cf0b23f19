"""What a module says of itself is kept to: threads, initialisation, memory, constants, its saved form."""

import doctest
import json
import threading

import numpy as np
import pytest
from careless_backend import NAME, CarelessModule, exp, registered

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.runtime import load, opened, sealed
from byoc.runtime.consistency import check_parts
from byoc.runtime.core.errors import ArtifactError, DeviceError, UserError
from byoc.runtime.json.module import JsonModule
from byoc.runtime.module_tree import load_module_tree
from byoc.runtime.modules import saving

pytestmark = pytest.mark.needs_cc
X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
W = np.linspace(0, 1, 24, dtype="float32").reshape(6, 4)


@pytest.fixture
def does():
    yield from registered()


def compiled(**options):
    x = relay.var("x", shape=(3, 4))
    body = relay.negative(relay.tanh(relay.abs(relay.exp(x))))
    return byoc.compile(byoc.IRModule.from_expr(relay.Function([x], body)), [NAME, "c"], **options)


class Crowd:
    """A function that writes down how many threads are in it at once; it lets all come that may."""

    def __init__(self, wanted):
        self.inside = self.most = 0
        self.lock, self.wanted, self.all_in = threading.Lock(), wanted, threading.Event()

    def __call__(self, x, out):
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
            if self.inside >= self.wanted:
                self.all_in.set()
        self.all_in.wait(0.3)
        np.copyto(out, x)
        with self.lock:
            self.inside -= 1


@pytest.mark.parametrize("starts", [False, True])
@pytest.mark.parametrize("is_safe", [False, True])
def test_one_thread_at_a_time_is_in_modules_that_are_not_for_several(does, monkeypatch, starts, is_safe):
    monkeypatch.setattr(CarelessModule, "thread_safe", is_safe)
    does.starts, crowd = starts, Crowd(2)
    does.run = crowd
    libraries = [compiled(), compiled()]
    threads = [threading.Thread(target=library.run, args=({"x": X},)) for library in libraries for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert crowd.inside == 0 and (crowd.most > 1) == is_safe


def test_eager_initialises_every_module_when_it_is_loaded_and_the_report_says_how_long_that_took(does, tmp_path):
    path = small_json().save(tmp_path / "m.byoc")
    lazy = load(path)
    assert lazy.initialization == [] and "initialization" not in lazy.report
    lazy.run({"x": X})
    assert [shown["type"] for shown in lazy.initialization] == ["json", "c"]
    eager = load(path, eager=True)
    shown = eager.report["initialization"]
    assert shown == eager.initialization and [t["type"] for t in shown] == ["json", "c"]
    assert all(t["seconds"] >= 0 and t["symbols"] for t in shown)
    assert eager.save(tmp_path / "again.byoc").read_bytes() == path.read_bytes()
    want = lazy.run({"x": X})
    np.testing.assert_array_equal(eager.run({"x": X})[0], want[0])
    assert eager.initialization == shown  # later calls initialise nothing


def small_json():
    """A region on backend json with a constant, and one with a constant on the host."""
    x = relay.var("x", shape=(3, 4))
    body = relay.add(relay.nn.dense(relay.exp(x), relay.const(W)), relay.const(np.ones(6, "float32")))
    mod = byoc.IRModule.from_expr(relay.Function([x], body))
    return byoc.compile(mod, ["json", "c"], exclude={"json": ["add", "exp"]})


def test_eager_reports_what_a_backend_raises_with_its_region(does, tmp_path, monkeypatch):
    does.run = exp
    strict = compiled().save(tmp_path / "strict.byoc")
    both = compiled(fallback=True).save(tmp_path / "both.byoc")

    def broken(self, name, query_imports=False):
        raise RuntimeError("no engine")

    monkeypatch.setattr(CarelessModule, "get_function", broken)
    with pytest.raises(DeviceError, match=rf"region .* on {NAME} failed at load: .*no engine"):
        load(strict, eager=True)
    library = load(both, eager=True)
    assert [f.stage for f in library.fallbacks] == ["load"] * 2
    np.testing.assert_allclose(library.run({"x": X})[0], -np.tanh(np.exp(X)), rtol=1e-5)


def test_the_command_says_it(does, tmp_path, capsys):
    path = str(small_json().save(tmp_path / "m.byoc"))
    assert main(["run", path, "--random", "--eager"]) == 0
    assert "initialised module 0 (json: " in capsys.readouterr().out
    assert main(["run", path, "--random", "--eager", "--json"]) == 0
    assert [t["type"] for t in json.loads(capsys.readouterr().out)["initialization"]] == ["json", "c"]


def test_the_report_has_the_bytes_of_each_region_and_what_its_module_says(does, monkeypatch):
    monkeypatch.setattr(CarelessModule, "memory", lambda self, symbol: {"workspace": 4096}, raising=False)
    regions = compiled().report["regions"]
    assert [(r["target"], r["inputs"], r["outputs"], r["constants"], r["workspace"]) for r in regions] == [
        (NAME, X.nbytes, X.nbytes, 0, 4096)
    ] * 2
    (shown,) = small_json().report["regions"]
    assert (shown["inputs"], shown["outputs"], shown["constants"]) == (X.nbytes, 3 * 6 * 4, W.nbytes)


def test_constants_of_a_vendors_region_that_are_not_as_compiled_are_refused(tmp_path):
    library = load(small_json().save(tmp_path / "m.byoc"))
    root = library.module
    (symbol,) = root.regions
    spec = root.regions[symbol].signature.constants[0]
    assert spec.shape == W.shape
    modules = [(m, m.symbols) for m in root.imports]
    check_parts(root, modules)
    array = root.constant_arrays[spec.name]
    for wrong in (W.T.copy(), W.astype("float64"), W[:1]):
        root.constant_arrays[spec.name] = byoc.runtime.NDArray(wrong)
        with pytest.raises(ArtifactError, match=rf"region {symbol} takes float32\[6, 4\]"):
            check_parts(root, modules)
    root.constant_arrays[spec.name] = array
    root.needs[symbol] = (spec.name, spec.name)
    with pytest.raises(ArtifactError, match="takes 1 constants, and 2 are listed"):
        check_parts(root, modules)


@pytest.mark.parametrize("as_tree", [False, True])
def test_a_loader_that_fails_is_reported_with_its_class_and_place(does, monkeypatch, tmp_path, as_tree):
    def damaged(cls, members):
        return members["nothing"] + None

    path = tmp_path / "model.byoc"
    if as_tree:
        CarelessModule("f").export_library(path)
    else:
        compiled().save(path)
    read = load_module_tree if as_tree else load
    read(path)
    monkeypatch.setattr(CarelessModule, "load", classmethod(damaged))
    with pytest.raises(UserError) as error:
        read(path)
    shown = str(error.value)
    assert f"the loader of module type {CarelessModule.type_key!r}" in shown and "save the model again" not in shown
    assert "failed with KeyError: 'nothing'" in shown and "test_module_promises.py:" in shown
    monkeypatch.delattr(CarelessModule, "load")
    with pytest.raises(UserError, match="CarelessModule has no class ?method load"):
        read(path)


def test_a_sealed_module_is_opened_and_another_or_a_damaged_one_is_refused():
    members = sealed("acme", 2, {"engine.bin": b"engine", "notes.txt": b""})
    assert opened(members, "acme", 2) == (2, {"engine.bin": b"engine", "notes.txt": b""})
    refused = {
        "of format 'acme', and 'other' is expected": (members, "other", 2),
        "version 2 of 'acme', and 1 is the newest": (members, "acme", 1),
        "engine.bin .* is damaged": ({**members, "engine.bin": b"Engine"}, "acme", 2),
        "it lists engine.bin": ({k: v for k, v in members.items() if k != "notes.txt"}, "acme", 2),
        "module.json, and it is missing": ({"engine.bin": b"engine"}, "acme", 2),
        "module.json": ({**members, "module.json": b"{"}, "acme", 2),
    }
    for words, given in refused.items():
        with pytest.raises(ArtifactError, match=words):
            opened(*given)
    assert doctest.testmod(saving).failed == 0


@pytest.mark.parametrize(("where", "key"), [("attrs", "a b"), ("attrs", "axis"), ("node", "extra"), ("graph", "extra")])
def test_unknown_keys_of_a_json_graph_are_refused_when_it_is_loaded(where, key):
    module = next(m for m in small_json().module.imports if m.type_key == "json")
    members = module.save()
    name = f"{module.symbols[0]}.json"
    graph = json.loads(members[name])
    place = {"attrs": graph["nodes"][0]["attrs"], "node": graph["nodes"][0], "graph": graph}[where]
    place[key] = [["1"]]
    with pytest.raises(ArtifactError, match=key):
        JsonModule.load({**members, name: json.dumps(graph).encode()})


@pytest.mark.parametrize("rows", [3, "N"])
def test_a_region_of_generated_c_says_what_its_values_inside_take(tmp_path, rows):
    """They are no entries of the executor's; a free size has no number."""
    x = relay.var("x", shape=(relay.Any(rows) if isinstance(rows, str) else rows, 500))
    first, second = (relay.const(np.ones(s, "float32")) for s in ((1000, 500), (7, 1000)))
    function = relay.Function([x], relay.nn.dense(relay.nn.relu(relay.nn.dense(x, first)), second))
    library = byoc.compile(byoc.IRModule.from_expr(function), targets=("c", "host"))
    (region,) = library.report["regions"]
    assert region["target"] == "c"
    assert region.get("workspace", 0) >= 3 * 1000 * 4 if rows == 3 else "workspace" not in region
    assert load(library.save(tmp_path / "m.byoc")).report["regions"] == [region]
