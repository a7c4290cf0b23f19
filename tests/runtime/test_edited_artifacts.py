"""Artefacts whose numbers were edited and whose hashes are right: refused when they are loaded, before code sees them.

With ``reseal`` the seal is made anew as well, as only byoc itself does; what then refuses is that the parts do not fit
each other, or the code. Each case was a crash, a hang, an error that was not ours, or a model that loaded.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.runtime.artefact.artifact import MANIFEST, read_artifact, write_artifact
from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.dso.library_file import LibraryFile
from byoc.runtime.loading import read_library

pytestmark = pytest.mark.needs_cc
X = np.arange(6, dtype="float32").reshape(2, 3)


def model(batch):
    weight = numpy_helper.from_array(np.arange(12, dtype="float32").reshape(3, 4), "w")
    other = numpy_helper.from_array(np.ones((4, 4), "float32"), "v")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "a"),
        helper.make_node("Softmax", ["a"], ["b"], "b"),
        helper.make_node("MatMul", ["b", "v"], ["c"], "c"),
        helper.make_node("Tanh", ["c"], ["y"], "y"),
    ]
    types = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, k]) for n, k in (("x", 3), ("y", 4))]
    graph = helper.make_graph(nodes, "m", types[:1], types[1:], [weight, other])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


KINDS = {
    "c": lambda: byoc.compile(model(2)),
    "sizes": lambda: byoc.compile(model("N")),
    "json": lambda: byoc.compile(model(2), ["json", "c"], exclude=["b"]),
    "opencl": lambda: byoc.compile(model("N"), ["opencl", "c"]),
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("originals")
    made = {}

    def original(kind):
        if kind not in made:
            made[kind] = KINDS[kind]().save(folder / f"{kind}.byoc").read_bytes()
        return made[kind]

    return original


def edited(data, tmp_path, change, reseal):
    """The artefact after ``change(manifest, members)``, where members that are JSON are values."""
    path = tmp_path / "m.byoc"
    path.write_bytes(data)
    artifact = read_artifact(path)
    manifest = {k: v for k, v in artifact.manifest.items() if k != "members" and not (reseal and k == "seal")}
    members = {n: bytes(d) for n, d in artifact.members.items() if n != MANIFEST}
    values = {n: json.loads(d) for n, d in members.items() if n.endswith(".json")}
    change(manifest, values)
    texts = {n: v if isinstance(v, bytes) else json.dumps(v).encode() for n, v in values.items()}
    write_artifact(path, manifest, {**members, **texts})
    return path


def of(name, change):
    """A change of the member whose name ends so."""

    def apply(manifest, values):
        found = next(n for n in values if n.endswith(name))
        values[found] = change(values[found]) or values[found]

    return apply


def launches(change):
    return of(
        "plan.json", lambda plan: [change(launch) for f in plan["functions"] for launch in f["launches"]] and None
    )


NESTED = b"[" * 200_000 + b"]" * 200_000
EDITS = {
    "an arena of 0": ("c", of("program.json", lambda p: p.update(arena_bytes=0))),
    "an arena of 2^60": ("c", of("program.json", lambda p: p.update(arena_bytes=1 << 60))),
    "an arena that is true": ("c", of("program.json", lambda p: p.update(arena_bytes=True))),
    "no constants": ("c", of("program.json", lambda p: p.update(constants=[]))),
    "a constant that there is not": (
        "c",
        of("program.json", lambda p: p["constants"].append(["tvmgen_default_run", 9])),
    ),
    "the symbol exit": ("c", of("program.json", lambda p: p.update(symbol="exit"))),
    "the symbol of a function is exit": ("c", of("signature.json", lambda s: s[0].update(symbol="exit"))),
    "a shape of 2^40": ("c", of("signature.json", lambda s: s[0]["inputs"][0].update(shape=[2, 1 << 40]))),
    "a shape whose product overflows": (
        "c",
        of("graph.json", lambda g: g["attrs"]["shape"][1].__setitem__(0, [1 << 40] * 4)),
    ),
    "another dtype": ("c", of("signature.json", lambda s: s[0]["outputs"][0].update(dtype="float64"))),
    "a lifetime of 10^9": ("sizes", of("program.json", lambda p: p["lifetimes"][0].__setitem__(1, 10**9))),
    "a lifetime from -1": ("sizes", of("program.json", lambda p: p["lifetimes"][0].__setitem__(0, -1))),
    "one lifetime less": ("sizes", of("program.json", lambda p: p["lifetimes"].pop())),
    "no sizes": ("sizes", of("program.json", lambda p: p.update(sizes=[]))),
    "JSON nested 200,000 deep": ("c", of("graph.json", lambda g: NESTED)),
    "a key twice": ("c", of("program.json", lambda p: json.dumps(p).encode().replace(b"{", b'{"symbol": "a", ', 1))),
    "NaN": ("c", of("program.json", lambda p: p.update(operations=float("nan")))),
    "a number of 5,000 digits": (
        "c",
        of(
            "program.json", lambda p: json.dumps({**p, "operations": 7654321}).encode().replace(b"7654321", b"9" * 5000)
        ),
    ),
    "a key that nothing knows": ("json", of("main_0.json", lambda g: g.update(more=1))),
    "a node reads itself": (
        "json",
        of("main_0.json", lambda g: g["nodes"][-1].update(inputs=[[len(g["nodes"]) - 1, 0, 0]])),
    ),
    "heads of -1": ("json", of("graph.json", lambda g: g.update(heads=[[-1, 0, 0]]))),
    "rows that fall": ("json", of("graph.json", lambda g: g["node_row_ptr"].reverse())),
    "wrong names of constants": ("json", of("constants.json", lambda c: c.update({k: ["gone"] for k in c}))),
    "constants of another symbol": ("json", of("constants.json", lambda c: c.update(nobody=[]))),
    "constants in another order": (
        "c",
        of("constants.json", lambda c: c.update(zip(c, [*c.values()][::-1], strict=True))),
    ),
    "an extent times 1,000": (
        "opencl",
        launches(lambda e: [v.update(extent=["mul", v["extent"], 1000]) for v in e["variants"]]),
    ),
    "a division by zero": ("opencl", launches(lambda e: [v.update(extent=["div", 1, 0]) for v in e["variants"]])),
    "a local size of 0": ("opencl", launches(lambda e: [v.update(local=0) for v in e["variants"]])),
    "a buffer of another": ("opencl", launches(lambda e: e["buffers"].reverse())),
    "small buffers": (
        "opencl",
        of("plan.json", lambda p: p["functions"][0].update(buffers=[0] * len(p["functions"][0]["buffers"]))),
    ),
    "two modules in one place": ("json", lambda m, v: m["modules"][0].update(path=m["modules"][1]["path"])),
    "no modules": ("c", lambda m, v: m.update(modules=[])),
    "another output": ("c", lambda m, v: m["outputs"][0].update(shape=[2, 5])),
}


@pytest.mark.parametrize("reseal", [False, True], ids=["hashes", "resealed"])
@pytest.mark.parametrize("name", EDITS)
def test_an_edited_number_is_refused_before_the_library_is_opened(originals, tmp_path, monkeypatch, name, reseal):
    kind, change = EDITS[name]
    path = edited(originals(kind), tmp_path, change, reseal)
    monkeypatch.setattr(LibraryFile, "open", lambda *a: pytest.fail("native code was loaded"))
    with pytest.raises(ArtifactError, match=r"m\.byoc: ") as caught:
        byoc.runtime.load(path).run({"x": X})
    assert len(str(caught.value)) < 1000 and "\n" not in str(caught.value)


def test_what_only_the_seal_can_know_is_refused_by_it(originals, tmp_path):
    """Two constants of one shape in each other's place, and a weight: no other number says that this is wrong."""
    path = edited(originals("c"), tmp_path, lambda manifest, values: manifest.update(requires=["c", "c"]), reseal=False)
    with pytest.raises(ArtifactError, match="its seal does not fit what is in it: something was edited after"):
        byoc.runtime.load(path)
    with pytest.raises(ArtifactError, match="the artefact cannot run: its seal does not fit"):
        read_library(path).run({"x": X})
    path = edited(originals("c"), tmp_path, lambda manifest, values: manifest.update(seal="0" * 64), reseal=False)
    with pytest.raises(ArtifactError, match="its seal does not fit"):
        byoc.runtime.load(path)


def test_code_without_a_seal_behind_it_is_refused(originals, tmp_path):
    path = tmp_path / "m.byoc"
    path.write_bytes(originals("c"))
    with zipfile.ZipFile(path) as archive:
        content = {info.filename: archive.read(info) for info in archive.infolist()}
    manifest = json.loads(content.pop(MANIFEST))
    members = {n: d[:-79] if n.endswith("lib.so") else d for n, d in content.items()}
    write_artifact(path, {k: v for k, v in manifest.items() if k != "members"}, members)
    with pytest.raises(ArtifactError, match="its seal does not fit"):
        byoc.runtime.load(path)


def weights(name, change):
    """A change of the header of the weights."""

    def apply(data):
        (length,) = struct.unpack("<Q", data[:8])
        header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
        header, body = change(header, body)
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + body

    return apply


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda h, b: (
                {**h, "more": {"dtype": "F32", "shape": [1], "data_offsets": [len(b), len(b) + 4]}},
                b + b"abcd",
            ),
            "the constant 'more' is one that nothing needs",
        ),
        (
            lambda h, b: ({k: {**e, "shape": e["shape"][::-1]} for k, e in h.items()}, b),
            r"is float32\[[1, 34]+\], and .* takes float32",
        ),
        (
            lambda h, b: ({k: {**e, "shape": [1 << 40, 1 << 40]} for k, e in h.items()}, b),
            "bytes, which are no float32",
        ),
        (
            lambda h, b: ({k: {**e, "data_offsets": [0, 48]} for k, e in h.items()}, b),
            "a tensor lies over another|which are",
        ),
        (lambda h, b: (h, b + b"more"), "bytes belong to none"),
        (lambda h, b: ({k: {**e, "dtype": "X9"} for k, e in h.items()}, b), "unknown dtype"),
    ],
)
def test_constants_that_are_too_many_or_of_another_shape_are_refused_when_loading(originals, tmp_path, change, words):
    path = tmp_path / "m.byoc"
    path.write_bytes(originals("c"))
    artifact = read_artifact(path)
    members = {n: bytes(d) for n, d in artifact.members.items() if n != MANIFEST}
    members["weights.safetensors"] = weights("w", change)(members["weights.safetensors"])
    write_artifact(path, {k: v for k, v in artifact.manifest.items() if k not in ("members", "seal")}, members)
    with pytest.raises(ArtifactError, match=words):
        byoc.runtime.load(path)


def zipped(data, write):
    """The artefact as another zip file with the same members; *write* adds to it."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(file, "w") as archive:
        for info in source.infolist():
            archive.writestr(zipfile.ZipInfo(info.filename), source.read(info))
        write(archive)
    return file.getvalue()


ZIPS = {
    "a name that leaves the folder": (lambda a: a.writestr(zipfile.ZipInfo("../out"), b"x"), "is no name of a member"),
    "an absolute name": (lambda a: a.writestr(zipfile.ZipInfo("/etc/x"), b"x"), "is no name of a member"),
    "a comment": (lambda a: setattr(a, "comment", b"hello"), "does not end as one"),
    "a member twice": (lambda a: a.filelist.append(a.filelist[0]), "does not lie where it should"),
    "30,000 members": (
        lambda a: [a.writestr(zipfile.ZipInfo(str(k)), b"") for k in range(30_000)],
        "byoc reads at most",
    ),
    "a compressed member": (
        lambda a: a.writestr(zipfile.ZipInfo("z"), b"x" * 99, zipfile.ZIP_DEFLATED),
        "is compressed",
    ),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ZIPS)
def test_a_zip_file_that_readers_disagree_about_is_refused(originals, tmp_path, name):
    write, words = ZIPS[name]
    path = tmp_path / "m.byoc"
    path.write_bytes(zipped(originals("c"), write))
    with pytest.raises(ArtifactError, match=words):
        byoc.runtime.load(path)
    data = originals("c")
    for at in (8, 14, 18, 22, 26, 28):  # method, checksum, sizes and lengths of the first member's own header
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ArtifactError, match="m.byoc: "):
            byoc.runtime.load(path)
    path.write_bytes(b"front" + data)
    with pytest.raises(ArtifactError, match="m.byoc: not a byoc artefact, or a damaged one"):
        byoc.runtime.load(path)
