"""The artefact: aligned, checked, and refused with one sentence when it is not whole."""

import json
import zipfile

import numpy as np
import pytest

from byoc.runtime.artefact.artifact import SCHEMA_VERSION, read_artifact, write_artifact
from byoc.runtime.core.errors import ArtifactError, UserError
from byoc.runtime.core.ndarray import ALIGNMENT, NDArray
from byoc.runtime.files.weights import read_weights, write_weights

MEMBERS = {"a.bin": b"alpha" * 100, "sub/b.bin": b"", "weights.safetensors": bytes(range(256))}


@pytest.fixture
def path(tmp_path):
    return write_artifact(tmp_path / "m.byoc", {"modules": []}, MEMBERS)


def damage(path, old, new):
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


def test_members_come_back_aligned_and_uncompressed(path):
    artifact = read_artifact(path)
    assert {k: bytes(v) for k, v in artifact.members.items() if k != "manifest.json"} == MEMBERS
    data = path.read_bytes()
    assert data.index(b"alpha") % ALIGNMENT == 0
    assert all(i.compress_type == zipfile.ZIP_STORED for i in zipfile.ZipFile(path).infolist())


def test_the_records_of_a_large_file_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 400)  # of 2 GB, from which on zipfile writes them
    path = write_artifact(tmp_path / "large.byoc", {"modules": []}, MEMBERS)
    assert b"PK\x06\x06" in path.read_bytes()
    assert {k: bytes(v) for k, v in read_artifact(path).members.items() if k != "manifest.json"} == MEMBERS
    for mark in (b"PK\x06\x06", b"PK\x06\x07"):
        data = path.read_bytes()
        at = data.index(mark) + 9
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ArtifactError, match="not a byoc artefact, or a damaged one"):
            read_artifact(path)
        path.write_bytes(data)


def test_the_same_content_gives_the_same_bytes(path, tmp_path):
    again = write_artifact(tmp_path / "n.byoc", {"modules": []}, MEMBERS)
    assert again.read_bytes() == path.read_bytes()


def test_a_changed_member_is_named(path):
    damage(path, b"alphaalpha", b"alphaalphA")
    with pytest.raises(ArtifactError, match=r"m\.byoc: member a\.bin is damaged"):
        read_artifact(path)


def test_every_cut_off_file_is_refused(path):
    data = path.read_bytes()
    for size in (0, 1, 30, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(ArtifactError, match=r"m\.byoc"):
            read_artifact(path)


def test_every_flipped_byte_of_a_member_is_found(path):
    data = path.read_bytes()
    start = data.index(b"alpha")
    for position in (start, start + 250, start + 499):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(ArtifactError):
            read_artifact(path)


def test_a_file_that_is_no_artifact_is_refused(tmp_path):
    other = tmp_path / "x.byoc"
    other.write_bytes(b"not a zip at all" * 10)
    with pytest.raises(ArtifactError, match="not a byoc artefact"):
        read_artifact(other)
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("hello", "world")
    with pytest.raises(ArtifactError, match=r"there is no manifest\.json in it"):
        read_artifact(other)
    with pytest.raises(ArtifactError, match="cannot be read"):
        read_artifact(tmp_path / "absent.byoc")


def test_a_newer_schema_is_refused(path):
    version = json.loads(bytes(read_artifact(path).members["manifest.json"]))["schema_version"]
    assert version == SCHEMA_VERSION
    damage(path, b'"schema_version": 1', b'"schema_version": 9')
    with pytest.raises(ArtifactError, match="written with schema 9, this byoc reads up to 1; upgrade byoc"):
        read_artifact(path)


def test_a_member_that_the_manifest_does_not_list_is_refused(path):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("evil.so", "x")
    with pytest.raises(ArtifactError, match=r"member evil\.so is not in the manifest"):
        read_artifact(path)


def test_a_folder_that_is_not_there_leaves_nothing(tmp_path):
    with pytest.raises(UserError, match="the folder cannot be written"):
        write_artifact(tmp_path / "no" / "m.byoc", {}, {})
    assert list(tmp_path.iterdir()) == []


def test_weights_are_views_of_the_file_and_keep_every_dtype():
    arrays = {
        f"w{k}": NDArray(np.arange(6).reshape(2, 3).astype(d))
        for k, d in enumerate(["float32", "float64", "int64", "int8", "uint8", "bool", "float16"])
    }
    arrays["scalar"] = NDArray(np.array(3.5, "float32"))
    data = memoryview(write_weights(arrays))
    back = read_weights(data, "here")
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name].numpy(), array.numpy())
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert np.shares_memory(back[name].numpy(), np.frombuffer(data, np.uint8))


def test_weights_outside_the_file_are_refused():
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    data = len(header).to_bytes(8, "little") + header + b"1234"
    with pytest.raises(ArtifactError, match=r"weights\.safetensors is damaged"):
        read_weights(memoryview(data), "here")


def test_strings_are_saved_as_text_and_come_back():
    data = bytes(write_weights({"words": NDArray(np.array(["a", "b\n"], object))}))
    assert b'"a"' in data
    assert read_weights(memoryview(data), "here")["words"].numpy().tolist() == ["a", "b\n"]
