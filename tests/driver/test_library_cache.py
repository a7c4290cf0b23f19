"""Compiled models in the cache folder: found by another process, and by none for which something else was asked."""

import inspect
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.codegen.tune.database import FOLDER as RECORDS_FOLDER
from byoc.codegen.tune.database import SUFFIX
from byoc.driver import library_key
from byoc.driver.compiler.entry import FOUND
from byoc.driver.library_cache import FOLDER, LibraryCache, own_libraries
from byoc.driver.library_key import circumstances
from byoc.driver.options import CompileRequest
from byoc.errors import UserError
from byoc.options.declaration import Keyed, options_of

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "digits"
DIGITS = EXAMPLE / "digits.onnx"


def network(activation="Relu", scale=1.0, seed=0):
    """Three layers, as an ONNX model's bytes."""
    rng = np.random.default_rng(seed)
    shapes = {"w0": (16, 3, 3, 3), "w1": (24, 16, 3, 3), "w2": (24 * 64, 10)}
    weights = [
        numpy_helper.from_array((rng.standard_normal(s) * scale / 9).astype("float32"), n) for n, s in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node(activation, ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("MatMul", ["e", "w2"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 3, 8, 8]), ("y", [1, 10])))
    graph = helper.make_graph(nodes, "network", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


COMPILE = """
import json, sys
import byoc
options, first = json.loads(sys.argv[3]), sys.argv[4]
if first:
    __import__(first)
stages = []
library = byoc.compile(sys.argv[1], progress=stages.append, **options)
loaded = "byoc.relay" in sys.modules
library.save(sys.argv[2])
import numpy as np
values = library(np.ones((1, 3, 8, 8), "float32")).tolist()
print(json.dumps({"stages": stages, "compiler": loaded, "values": values, "report": library.report}))
"""


class Place:
    """A cache folder, and a C compiler that writes down each time it is called."""

    def __init__(self, folder, cache):
        folder.mkdir(exist_ok=True)
        self.folder, self.cache, self.log = folder, cache, folder / "cc.log"
        self.cc = folder.parent / "cc"
        if not self.cc.exists():
            self.cc.write_text('#!/bin/sh\necho "$@" >> "$CC_LOG"\nexec ${REAL_CC:-cc} "$@"\n')
            self.cc.chmod(self.cc.stat().st_mode | stat.S_IXUSR)

    def compiled(self, model, first="", **options):
        """What a process of its own reports that compiles *model*, after importing *first*."""
        path, out = self.folder / "model.onnx", self.folder / "out.byoc"
        path.write_bytes(model)
        environment = {**os.environ, "BYOC_CACHE_DIR": str(self.cache), "CC": str(self.cc), "CC_LOG": str(self.log)}
        environment["REAL_CC"] = os.environ.get("CC", "cc")
        self.log.write_text("")
        command = [sys.executable, "-c", COMPILE, str(path), str(out), json.dumps(options), first]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return {
            **json.loads(done.stdout),
            "bytes": out.read_bytes(),
            "objects": sum(" -c " in line for line in self.log.read_text().splitlines()),
            "linked": "-shared" in self.log.read_text(),
        }


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache folder in which one process compiled the network, and what that process reported."""
    place = Place(tmp_path_factory.mktemp("library_cache") / "first", tmp_path_factory.mktemp("kept"))
    return place, place.compiled(network())


@pytest.fixture
def place(filled):
    """A copy of the filled folder."""
    first, _ = filled
    copy = first.folder.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(first.cache, copy / "cache")
    return Place(copy, copy / "cache")


def entry(cache):
    (found,) = (cache / FOLDER).glob("*.byoc")
    return found


@pytest.mark.needs_cc
def test_a_second_process_takes_the_library_and_loads_no_compiler(filled, place):
    _, first = filled
    assert first["compiler"] and FOUND not in first["stages"] and first["objects"] > 1
    second = place.compiled(network())
    assert second["stages"] == [FOUND] and not second["compiler"]
    assert not second["objects"] and not second["linked"]
    for shown in ("values", "report", "bytes"):
        assert second[shown] == first[shown]
    assert np.any(second["values"])


@pytest.mark.needs_cc
def test_a_changed_operator_is_compiled_and_nothing_else(filled, place):
    _, first = filled
    changed = place.compiled(network(activation="Sigmoid"))
    assert FOUND not in changed["stages"] and changed["values"] != first["values"]
    assert changed["objects"] == 2  # the group, and the entries that call it


@pytest.mark.needs_cc
def test_a_changed_weight_gives_another_library_and_compiles_nothing(filled, place):
    _, first = filled
    changed = place.compiled(network(scale=1.5))
    assert FOUND not in changed["stages"] and changed["values"] != first["values"] and changed["objects"] == 0


def flipped(data):
    return data[:-5000] + bytes([data[-5000] ^ 1]) + data[-4999:]


@pytest.mark.needs_cc
def test_a_damaged_library_is_made_anew(filled, place):
    _, first = filled
    whole = entry(place.cache).read_bytes()
    entry(place.cache).write_bytes(flipped(whole))
    again = place.compiled(network())
    assert FOUND not in again["stages"] and again["values"] == first["values"]
    assert entry(place.cache).read_bytes() == whole


@pytest.mark.needs_cc
def test_who_may_have_registered_something_neither_reads_nor_keeps_a_library(monkeypatch, tmp_path):
    assert not library_key.is_untouched()  # this process has loaded the graph language
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    byoc.compile(network())
    assert not (tmp_path / FOLDER).exists()


def test_every_registry_of_partitioning_is_where_one_may_have_registered_something():
    folder = pathlib.Path(byoc.__file__).parent / "partition"
    with_registry = [p for p in folder.rglob("*.py") if re.search(r"= \w*Registry[\[(]|^POLICIES", p.read_text(), re.M)]
    names = [".".join(("byoc.partition", *p.relative_to(folder).with_suffix("").parts)) for p in with_registry]
    assert len(names) >= 4 and "byoc.partition.options" not in library_key.REGISTRIES
    rooms = [name for name in names if name != "byoc.partition.options"]  # which declares words alone
    assert [name for name in rooms if not name.startswith(library_key.REGISTRIES)] == []


@pytest.mark.slow
@pytest.mark.needs_cc
def test_a_tuned_library_is_what_a_second_compilation_gives(filled, place):
    first = place.compiled(network(), tune="fast")
    second = place.compiled(network(), tune="fast")
    third = place.compiled(network(), first="byoc.relay", tune="fast")
    assert first["report"]["tuning"]["tuned"] and second["stages"] == [FOUND] and FOUND not in third["stages"]
    for shown in ("values", "report", "bytes"):
        assert second[shown] == third[shown]
    (place.cache / RECORDS_FOLDER / f"another{SUFFIX}").write_text("")
    assert FOUND not in place.compiled(network(), tune="fast")["stages"]


def test_the_key_leaves_nothing_apart_but_what_it_asks_for_otherwise():
    apart = {d.name for d in options_of(CompileRequest) if d.about.key is Keyed.APART}
    assert apart == {"model", "targets", "progress"}
    assert [d.name for d in options_of(CompileRequest)] == list(inspect.signature(byoc.compile).parameters)


MODEL = b"model"


@pytest.fixture
def untouched(monkeypatch):
    monkeypatch.setattr(library_key, "is_untouched", lambda: True)


def key(model=MODEL, records="", **options):
    return circumstances(model, CompileRequest(model, **options)).key(records)


OTHERS = {
    "shapes": [{"x": [1, 3]}, {"x": [1, "3"]}],
    "exclude": [("nn.relu",), {"c": ["nn.relu"]}],
    "backend_options": [{"c": {"winograd": "off"}}, {"c": {"strict": 1}}, {"c": {"strict": True}}],
    "overridable": [["w"], ["w", "b"]],
    "precision": ["bf16", "fp16", "int8"],
    "keep_f32": [("Conv_0",)],
    "tune": ["fast"],
    "policy": ["cost", "score"],
    "replan": [True],
    "fallback": [True],
    "compile_timeout": [60.0],
    "labels": [{"version": "3"}],
    "region_timeout": [60.0],
    "tune_later": [True],
    "prefer": [{"nn.relu": ["c"]}],
    "configuration": ["first"],
}
EDITED, OWN_TUNER = type("Pipeline", (), {})(), type("Tuner", (), {})()  # classes are known by their names
WITHOUT_KEY = {"calibration": [[]], "plan": ["plan.json"], "costs": ["table.json"], "pipeline": [EDITED]}


@pytest.mark.needs_cc
def test_whatever_is_asked_for_is_part_of_the_key(untouched):
    assert key() == key(targets="c") == key(targets=["host"]) == key(progress=print)
    declared = {d.name for d in options_of(CompileRequest) if d.about.key is not Keyed.APART}
    assert declared == {*OTHERS, *WITHOUT_KEY}, "an option has no other value here"
    keys = [key(**{name: value}) for name, values in OTHERS.items() for value in values]
    keys += [key(), key(b"another model"), key(records="0")]
    assert len(set(keys)) == len(keys)


@pytest.mark.needs_cc
def test_packages_processors_and_sources_are_part_of_the_key(untouched, monkeypatch, tmp_path):
    before = key()
    monkeypatch.setattr(library_key, "versions", lambda: "another numpy")
    another = key()
    monkeypatch.setattr(library_key, "usable_processors", lambda: 12345)
    assert len({before, another, key()}) == 3
    (tmp_path / "pass.py").write_text("a = 1")
    monkeypatch.setattr(byoc.runtime, "__path__", [str(tmp_path)])
    sources = library_key.sources_digest()
    (tmp_path / "pass.py").write_text("a = 2")
    assert library_key.sources_digest() != sources


@pytest.mark.parametrize(
    "options",
    [
        {"targets": ("opencl", "c")},
        {"shapes": {"x": [np.int64(1)]}},
        {"tune": OWN_TUNER},
        *({name: value} for name, values in WITHOUT_KEY.items() for value in values),
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_has_no_certain_text_has_no_key(untouched, options):
    assert circumstances(MODEL, CompileRequest(MODEL, **options)) is None


def test_what_is_no_file_has_no_key(untouched, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    for model in (object(), str(tmp_path / "absent"), str(tmp_path / "empty"), str(tmp_path)):
        assert circumstances(model, CompileRequest(model)) is None


def test_a_model_with_data_in_other_files_is_not_kept(tmp_path):
    alone, model = network(), onnx.load_from_string(network())
    assert library_key.stands_alone(alone, library_key.model_digest(alone))
    assert not library_key.stands_alone(alone, library_key.model_digest(b"what it was"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    path = str(tmp_path / "m.onnx")
    assert not library_key.stands_alone(path, library_key.model_digest(path))


def test_the_database_of_tuning_is_looked_for_where_it_is(monkeypatch, tmp_path):
    assert library_key.RECORDS == (RECORDS_FOLDER, SUFFIX)
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    empty = library_key.tuned_records()
    (tmp_path / RECORDS_FOLDER).mkdir()
    (tmp_path / RECORDS_FOLDER / f"a{SUFFIX}").write_text("record")
    assert library_key.tuned_records() != empty


@pytest.fixture(scope="module")
def library():
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [8]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    opset = [helper.make_opsetid("", 17)]
    return byoc.compile(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())


@pytest.mark.needs_cc
def test_what_was_not_used_for_longest_goes_first(library, tmp_path):
    cache = LibraryCache(tmp_path, 1 << 30)
    for k, name in enumerate("abc"):
        assert cache.write(name, library) is None
        os.utime(tmp_path / f"{name}.byoc", (k, k))
    assert cache.read("a") is not None  # which is a use
    size = (tmp_path / "a.byoc").stat().st_size
    LibraryCache(tmp_path, 2 * size).shrink()
    assert sorted(p.stem for p in tmp_path.glob("*.byoc")) == ["a", "c"]
    old, new = tmp_path / "a.byoc1.part", tmp_path / "a.byoc2.part"
    old.write_bytes(b"")
    new.write_bytes(b"")
    os.utime(old, (0, 0))
    LibraryCache(tmp_path, 0).shrink()
    assert list(tmp_path.iterdir()) == [new]


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    "damage", [flipped, lambda d: d[: len(d) // 2], lambda d: b""], ids=["flipped", "truncated", "empty"]
)
def test_a_damaged_library_counts_as_none(library, tmp_path, damage):
    cache = LibraryCache(tmp_path, 1 << 30)
    assert cache.write("a", library) is None and cache.read("a") is not None
    place = tmp_path / "a.byoc"
    place.write_bytes(damage(place.read_bytes()))
    assert cache.read("a") is None


@pytest.mark.needs_cc
def test_many_may_write_and_read_one_library_at_once(library, tmp_path):
    cache = LibraryCache(tmp_path, 1 << 30)
    assert cache.write("a", library) is None
    wrong = []

    def work():
        for _ in range(20):
            wrong.extend(text for text in [cache.write("a", library)] if text is not None)
            wrong.extend(["damaged"] if cache.read("a") is None else [])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and [p.name for p in tmp_path.iterdir()] == ["a.byoc"]


@pytest.mark.needs_cc
def test_a_folder_that_cannot_be_written_is_reported(library, tmp_path):
    (tmp_path / "file").write_text("no folder")
    assert "file" in LibraryCache(tmp_path / "file", 1 << 30).write("a", library)


def test_the_limit_is_a_number_of_megabytes(monkeypatch):
    monkeypatch.setenv("BYOC_LIBRARY_CACHE_MB", "12")
    assert own_libraries().limit == 12 << 20
    monkeypatch.setenv("BYOC_LIBRARY_CACHE_MB", "0")
    assert own_libraries() is None
    monkeypatch.setenv("BYOC_LIBRARY_CACHE_MB", "much")
    with pytest.raises(UserError, match=r"\$BYOC_LIBRARY_CACHE_MB is a number of megabytes, .* got 'much'"):
        own_libraries()


@pytest.mark.needs_cc
def test_a_model_from_the_cache_is_written_without_the_compiler(tmp_path):
    code = (
        "import sys\n"
        "from byoc.cli import main\n"
        f"assert main.main(['compile', {str(DIGITS)!r}, '--tune', sys.argv[2], '-o', sys.argv[1]]) == 0\n"
        "print('byoc.relay' in sys.modules)\n"
    )
    environment = {**os.environ, "BYOC_CACHE_DIR": str(tmp_path / "cache")}
    for level in ("none", "fast"):
        printed = []
        for number in (1, 2):
            output = str(tmp_path / f"{level}{number}.byoc")
            command = [sys.executable, "-c", code, output, level]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
            printed.append(done.stdout.splitlines())
        assert [lines[-1] for lines in printed] == ["True", "False"]
        assert printed[0][0] == printed[1][0] and printed[0][0].startswith("Plan: policy order")
        made = [byoc.runtime.load(tmp_path / f"{level}{number}.byoc") for number in (1, 2)]
        images = np.load(EXAMPLE / "unseen.npz")["images"][:1].astype("float32")
        np.testing.assert_array_equal(*(library(images) for library in made))
