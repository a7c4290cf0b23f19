"""Artefacts that are damaged, too new, or made for another machine; and places where none can be written."""

import builtins
import errno
import json
import pathlib
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import byoc
from byoc.cli.main import main
from byoc.errors import ArtifactError, DeviceError, UnavailableError, UserError
from byoc.runtime.artefact.artifact import read_artifact, write_artifact
from byoc.runtime.core.processor import Processor, this_processor
from byoc.runtime.dso import library_file
from byoc.runtime.files import whole_file
from byoc.runtime.opencl import devices
from byoc.runtime.opencl import module as opencl_module

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
IMAGE = np.ones((2, 1, 8, 8), "float32")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    library = byoc.compile(DIGITS, targets=["json", "c"], exclude=["nn.softmax", "nn.max_pool2d"])
    return library.save(tmp_path_factory.mktemp("original") / "m.byoc")


@pytest.fixture
def path(original, tmp_path):
    copy = tmp_path / "m.byoc"
    copy.write_bytes(original.read_bytes())
    return copy


def rewrite(path, change):
    """Write the artefact anew, with right hashes, after ``change(manifest, members)``."""
    artifact = read_artifact(path)
    manifest = {k: v for k, v in artifact.manifest.items() if k != "members"}
    members = {name: bytes(data) for name, data in artifact.members.items() if name != "manifest.json"}
    del artifact
    change(manifest, members)
    write_artifact(path, manifest, members)


pytestmark = pytest.mark.needs_cc


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(ArtifactError, match=r"none\.byoc: the artefact cannot be read \(No such file"):
        byoc.runtime.load(tmp_path / "none.byoc")
    with pytest.raises(ArtifactError, match="the artefact cannot be read"):
        byoc.runtime.load(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.9999])
def test_a_truncated_artifact_is_refused(path, share):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ArtifactError, match=r"m\.byoc: .*save the model again"):
        byoc.runtime.load(path)


def test_every_damaged_member_is_named(path):
    data = path.read_bytes()
    for info in zipfile.ZipFile(path).infolist():
        name_length, extra_length = struct.unpack("<HH", data[info.header_offset + 26 : info.header_offset + 30])
        start = info.header_offset + 30 + name_length + extra_length
        broken = bytearray(data)
        broken[start + info.file_size // 2] ^= 4
        path.write_bytes(bytes(broken))
        with pytest.raises(
            ArtifactError, match=rf"m\.byoc: .*({info.filename}.* (is damaged|not readable)|a damaged one)"
        ):
            byoc.runtime.load(path)


def test_no_flipped_byte_loads_another_model_or_escapes_as_another_error(path):
    expected = byoc.runtime.load(path)(IMAGE)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for position in rng.choice(len(data), 40, replace=False):
        broken = bytearray(data)
        broken[position] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(broken))
        try:
            np.testing.assert_array_equal(byoc.runtime.load(path)(IMAGE), expected)  # a byte of padding
        except ArtifactError as error:
            assert "m.byoc" in str(error)
            refused += 1
    assert refused > 30


def test_a_newer_schema_is_refused(path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"schema_version": 1', b'"schema_version": 7', 1))
    with pytest.raises(ArtifactError, match="written with schema 7, this byoc reads up to 1; upgrade byoc"):
        byoc.runtime.load(path)


@pytest.mark.parametrize("gone", ["graph.json", "weights.safetensors", "report.json", "metadata/constants.json"])
def test_a_member_that_is_needed_and_was_left_out_is_named(path, gone):
    rewrite(path, lambda manifest, members: members.pop(gone))
    with pytest.raises(ArtifactError, match=f"member {gone} is missing"):
        byoc.runtime.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest, members: manifest.pop("modules"),
        lambda manifest, members: manifest.update(modules=3),
        lambda manifest, members: manifest.update(modules=[{"type_key": "json"}]),
        lambda manifest, members: manifest.update(outputs=[]),
        lambda manifest, members: members.update({"graph.json": b"{}"}),
        lambda manifest, members: members.update({"graph.json": b"nonsense"}),
        lambda manifest, members: members.update({"report.json": b"\xff\xfe"}),
        lambda manifest, members: members.update({"weights.safetensors": b"12345678"}),
        lambda manifest, members: members.update({"metadata/constants.json": b'{"f": ["gone"]}'}),
        lambda manifest, members: members.update({"modules/0_json/engine.json": b"[]"}),
        lambda manifest, members: members.pop("modules/0_json/engine.json"),
    ],
)
def test_members_that_do_not_fit_together_are_refused(path, change):
    rewrite(path, change)
    with pytest.raises(ArtifactError, match=r"m\.byoc"):
        byoc.runtime.load(path)


def test_a_module_of_a_vendor_that_is_not_here_is_named(path):
    rewrite(path, lambda manifest, members: manifest["modules"][0].update(type_key="absent_vendor"))
    known = r"known: (\w+, )*c, (\w+, )*json, (\w+, )*opencl(, \w+)*"
    message = f"m.byoc: nothing here loads modules of type 'absent_vendor'; {known}; install the vendor's package"
    with pytest.raises(ArtifactError, match=message):
        byoc.runtime.load(path)


def c_folder(members):
    return next(name.rsplit("/", 1)[0] for name in members if name.endswith("lib.so"))


@pytest.mark.parametrize("member", ["lib.so", "processor.json", "signature.json", "source.c"])
def test_a_c_module_without_one_of_its_members_is_refused(path, member):
    rewrite(path, lambda manifest, members: members.pop(f"{c_folder(members)}/{member}"))
    with pytest.raises(ArtifactError, match=rf"m\.byoc: a module of type 'c' needs the member '{member}'"):
        byoc.runtime.load(path)


@pytest.mark.parametrize("text", [b"{}", b"[]", b"nonsense", b'{"machine": 3, "features": []}'])
def test_a_c_module_with_a_damaged_description_of_its_processor_is_refused(path, text):
    rewrite(path, lambda manifest, members: members.update({f"{c_folder(members)}/processor.json": text}))
    with pytest.raises(ArtifactError, match=r"m\.byoc: a module of type 'c' is damaged"):
        byoc.runtime.load(path)


def needs(processor):
    text = json.dumps(processor.to_json()).encode()
    return lambda manifest, members: members.update({f"{c_folder(members)}/processor.json": text})


def test_a_library_for_another_machine_is_refused_before_anything_runs(path):
    rewrite(path, needs(Processor("s390x", ())))
    message = r"m\.byoc: module \d \(c\) cannot run here: its code was compiled for s390x, and this is "
    with pytest.raises(UnavailableError, match=message):
        byoc.runtime.load(path)


def test_a_library_that_needs_a_feature_that_this_processor_lacks_is_refused(path, capsys):
    here = this_processor()
    rewrite(path, needs(Processor(here.machine, (*(here.features or ())[:2], "avx1024f", "amx_fp8"))))
    with pytest.raises(UnavailableError, match="compiled for a processor with avx1024f, amx_fp8, which this one lacks"):
        byoc.runtime.load(path)
    assert main(["run", str(path), "--random"]) == 3
    assert "avx1024f" in capsys.readouterr().err
    assert main(["inspect", str(path)]) == 0
    assert "(c): its code was compiled for a processor with avx1024f, amx_fp8" in capsys.readouterr().out


def test_the_saved_processor_is_the_one_that_the_code_was_compiled_for(path):
    members = read_artifact(path).members
    saved = Processor.from_json(json.loads(bytes(members[f"{c_folder(members)}/processor.json"])))
    assert saved.machine == this_processor().machine
    assert this_processor().lacks(saved) is None


def test_a_system_that_does_not_report_its_features_is_not_refused():
    assert Processor("x86_64", None).lacks(Processor("x86_64", ("avx2",))) is None
    assert Processor("x86_64", ("sse",)).lacks(Processor("x86_64", ("avx2",))) is not None


@pytest.fixture
def for_opencl(tmp_path):
    return byoc.compile(DIGITS, targets=["opencl", "c"]).save(tmp_path / "ocl.byoc")


@pytest.mark.needs_opencl
def test_an_opencl_artifact_without_a_device_is_refused_before_anything_runs(for_opencl, monkeypatch, capsys):
    monkeypatch.setattr(devices, "_found_devices", list)
    devices._open.cache_clear()
    try:
        with pytest.raises(DeviceError, match=r"ocl\.byoc: module 0 \(opencl\) cannot run here: no OpenCL device was"):
            byoc.runtime.load(for_opencl)
        assert main(["run", str(for_opencl), "--random"]) == 3
        assert "pip install 'byoc-compiler[opencl]'" in capsys.readouterr().err
    finally:
        devices._open.cache_clear()


def test_an_opencl_artifact_without_pyopencl_is_refused_before_anything_runs(for_opencl):
    code = (
        "import sys\n"
        "sys.modules['pyopencl'] = None\n"
        "import byoc.runtime\n"
        "try:\n"
        f"    byoc.runtime.load({str(for_opencl)!r})\n"
        "except byoc.runtime.UnavailableError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "module 0 (opencl) cannot run here: OpenCL needs the package pyopencl, which is missing here" in done.stdout
    assert opencl_module.OpenCLModule.load(_members(for_opencl)).get_source()


def _members(path):
    found = read_artifact(path).members
    return {name.split("/", 2)[2]: data for name, data in found.items() if name.startswith("modules/0_opencl/")}


def test_a_folder_for_temporary_files_that_cannot_be_written_is_named(original, monkeypatch):
    def denied(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    library = byoc.runtime.load(original)
    monkeypatch.setattr(library_file.os, "memfd_create", denied)
    for name in ("TemporaryFile", "mkstemp"):
        monkeypatch.setattr(library_file.tempfile, name, denied)
    with pytest.raises(UnavailableError, match=r"temporary files cannot be written \(Read-only file system\): name an"):
        library(IMAGE)


def test_a_folder_that_is_missing_or_a_name_that_is_a_folder_is_refused(original, tmp_path):
    library = byoc.runtime.load(original)
    with pytest.raises(UserError, match=r"no/m\.byoc: the folder cannot be written \(No such file or directory\)"):
        library.save(tmp_path / "no" / "m.byoc")
    with pytest.raises(UserError, match="this is a folder; give the name of a file"):
        library.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_writable_is_refused(original, tmp_path, monkeypatch):
    def denied(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    library = byoc.runtime.load(original)
    monkeypatch.setattr(whole_file.os, "open", denied)
    with pytest.raises(UserError, match=r"the folder cannot be written \(Permission denied\); choose another"):
        library.save(tmp_path / "m.byoc")


def test_a_full_disk_leaves_nothing_and_keeps_what_was_there(original, tmp_path, monkeypatch):
    library = byoc.runtime.load(original)
    target = tmp_path / "m.byoc"
    target.write_bytes(b"the old artefact")
    real = whole_file.os.fdopen

    class FullDisk:
        def __init__(self, handle, mode):
            self._file = real(handle, mode)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self._file.close()

        def write(self, data):
            self._file.write(data[:100])
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(whole_file.os, "fdopen", FullDisk)
    with pytest.raises(UserError, match=r"m\.byoc: the file cannot be written \(No space left on device\)"):
        library.save(target)
    assert [p.name for p in tmp_path.iterdir()] == ["m.byoc"]
    assert target.read_bytes() == b"the old artefact"


def test_loading_opens_no_other_file_and_unpickles_nothing(original, monkeypatch):
    import pickle

    monkeypatch.setattr(pickle, "loads", lambda *a: pytest.fail("unpickled"))
    monkeypatch.setattr(pickle, "Unpickler", lambda *a: pytest.fail("unpickled"))
    opened = []
    real = builtins.open
    monkeypatch.setattr(builtins, "open", lambda file, *a, **k: (opened.append(str(file)), real(file, *a, **k))[1])
    byoc.runtime.load(original)
    assert [f for f in opened if f != str(original) and not f.startswith(("/proc/", "/sys/"))] == []


def test_a_package_that_a_module_needs_and_is_missing_is_named(path):
    load = f"import sys; sys.modules['cffi'] = None; import byoc.runtime; byoc.runtime.load({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert "UnavailableError" in last
    assert "m.byoc: modules of type 'c' cannot be loaded here (" in last
    assert last.endswith(": install cffi")
