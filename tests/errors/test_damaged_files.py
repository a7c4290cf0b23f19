"""Files beside artefacts and models, from whoever wrote them: one sentence of ours, or a line that is passed over."""

from __future__ import annotations

import io
import json
import struct
import zipfile

import numpy as np
import pytest

from byoc.annex.node_json import load_json
from byoc.cli.tensors.array_files import read_array, read_arrays
from byoc.codegen.tune.database import read_records
from byoc.errors import InputError, ParseError, UserError
from byoc.ir.target import Target
from byoc.relay.text.metadata import decode_section
from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.strict_json import MOST_DEPTH, read_json
from byoc.runtime.params import load_param_dict, save_param_dict

NESTED = "[" * 200_000


def header(text, version=(1, 0)):
    """The beginning of a .npy file with this header."""
    data = text.encode()
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(data)) + data


def saved(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def zipped(*members, **options):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


PETABYTE = header("{'descr': '<f4', 'fortran_order': False, 'shape': (1125899906842624,), }\n")
ARRAYS = {
    "an array of 2^50 elements": PETABYTE,
    "a negative shape": header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n") + b"abcd",
    "one byte more": saved(np.ones(3)) + b"x",
    "objects, which would be unpickled": saved(np.array([{}], object)),
    "a header that is no dictionary": header("(" * 5000),
    "a header of another version": header("{}", (9, 0)),
    "nothing": b"",
    "a zip file that is cut": zipped(("x.npy", saved(np.ones(3))))[:-9],
    "an archive with an array of 2^50": zipped(("x.npy", PETABYTE)),
    "a compressed member that is damaged": zipped(("x.npy", saved(np.ones(999))), compression=zipfile.ZIP_DEFLATED)
    .replace(b"\x78", b"\x79")
    .replace(b"NUMPY", b"NUMPX")[:-60]
    + b"PK",
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_file_is_refused_before_memory_is_taken(tmp_path, name):
    path = tmp_path / "a.npz"
    path.write_bytes(ARRAYS[name])
    with pytest.raises(InputError, match=r"a\.npz: cannot be read as numpy's \.npz or \.npy \("):
        read_arrays(path)
    with pytest.raises(InputError, match=r"input 'x': "):
        read_array("x", path)


@pytest.mark.parametrize("array", [np.zeros((0, 3)), np.float32(3), np.asfortranarray(np.arange(6.0).reshape(2, 3))])
def test_arrays_of_every_layout_come_back(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", x=array, y=np.array([True]))
    np.testing.assert_array_equal(read_array("x", tmp_path / "a.npy"), array)
    found = read_arrays(tmp_path / "a.npz")
    assert list(found) == ["x", "y"] and found["x"].shape == np.shape(array)
    np.testing.assert_array_equal(found["x"], array)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (NESTED, "nested deeper than 256"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ("[NaN]", "NaN is no number"),
        ("9" * 5000, "not readable as JSON"),
        ("[1,]", "not readable"),
        ("\xff", "not readable"),
        ('["' + "[" * 999 + '"' + "," + NESTED, "nested deeper"),
    ],
)
def test_json_is_read_within_limits(text, words):
    with pytest.raises(ArtifactError, match=f"here: .*{words}"):
        read_json(text.encode("latin-1"), "here")


def test_brackets_in_texts_are_no_depth():
    value = ["[" * 1000, {'"]': "\\"}, [[]] * 300]
    assert read_json(json.dumps(value).encode(), "here") == value
    deep = json.loads("[" * MOST_DEPTH + "]" * MOST_DEPTH)
    assert read_json(json.dumps(deep).encode(), "here") == deep


def test_names_of_parameters_that_are_no_text_are_refused():
    data = bytes(save_param_dict({"weight": np.ones(2, "float32")}))
    with pytest.raises(ArtifactError, match="a name of the parameters is no text"):
        load_param_dict(data.replace(b"weight", b"\xffeight"))


@pytest.mark.parametrize(
    "row", ['{"type_key": "relay.Var", "attrs": 3}', "[]", '{"type_key": "IntImm", "attrs": {"value": 1e999}}', NESTED]
)
def test_rows_of_relays_json_of_another_kind_are_refused(row):
    with pytest.raises(ParseError, match=r"this is not what tvm\.ir\.save_json writes"):
        load_json(f'{{"root": 1, "nodes": [{{"type_key": ""}}, {row}]}}')


def test_damaged_lines_of_a_database_are_passed_over(tmp_path):
    file = tmp_path / "records.jsonl"
    lines = [b"\xff", b"[]", b"3", b"null", b"{}", NESTED.encode(), b'{"check": []}', b"9" * 5000]
    file.write_bytes(b"\n".join(lines))
    assert read_records(file) == []


def test_texts_that_look_like_json_are_refused_in_a_sentence():
    for text in ("{", '{"host": 3}', "{" + NESTED):
        with pytest.raises(UserError, match="a target "):
            Target(text)
    for text in (NESTED, '{"a": [%s]}' % ("9" * 5000)):
        with pytest.raises(ParseError, match="line 7: the metadata section"):
            decode_section(text, 7)


def test_a_parameter_of_no_bytes_whose_shape_no_process_can_address_is_refused():
    empty = save_param_dict({"w": np.zeros((0, 3), "float32")})
    huge = empty.replace(struct.pack("<qq", 0, 3), struct.pack("<qq", 0, 1 << 62))
    assert huge != empty
    with pytest.raises(ArtifactError, match="parameter 'w'"):
        load_param_dict(huge)
