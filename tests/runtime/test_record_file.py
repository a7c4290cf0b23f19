"""The file of records: what is added is found by all processes, and whatever else stands in it is passed over."""

import hashlib
import os
import stat
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byoc.runtime.files import record_file
from byoc.runtime.files.record_file import FileRecord, RecordFile


def key(text):
    return hashlib.sha256(str(text).encode()).digest()


def record(name, size=100, seed=0):
    return FileRecord(key(name), str(name).encode(), bytes((seed + k) % 256 for k in range(size)))


def filled(path, count=5):
    file = RecordFile(path)
    made = [record(k, 50 + k) for k in range(count)]
    assert all(file.add(r) for r in made)
    return file, made


def test_records_are_found_in_the_order_of_their_addition_and_the_last_of_a_key_counts(tmp_path):
    file, made = filled(tmp_path / "deep" / "f")
    assert not file.add(made[2])
    newer = record(1, 7, 3)
    assert file.add(newer)
    for reader in (file, RecordFile(file.path)):
        assert reader.find(made[0].key) == made[0]
        assert reader.find(newer.key) == newer
        assert reader.find(key("none")) is None
        assert reader.records() == [made[0], *made[2:], newer]
    assert file.add(made[1]) and file.find(made[1].key) == made[1]


def test_an_empty_record_is_a_record(tmp_path):
    empty = FileRecord(key(0), b"", b"")
    assert RecordFile(tmp_path / "f").add(empty)
    assert RecordFile(tmp_path / "f").find(key(0)) == empty


def test_what_another_adds_is_seen_without_opening_anew(tmp_path):
    one, made = filled(tmp_path / "f")
    other = RecordFile(tmp_path / "f")
    assert other.find(made[0].key) == made[0]
    one.add(record("later"))
    assert other.find(key("later")) == record("later")
    one.remove(lambda r: r.about == b"later")
    assert other.find(key("later")) is None and other.find(made[4].key) == made[4]


def test_no_file_has_no_records_and_a_foreign_one_neither_and_is_made_anew(tmp_path):
    path = tmp_path / "f"
    assert RecordFile(path).find(key(0)) is None and RecordFile(path).records() == []
    for content in (b"", b"something else, of somebody else" * 100, record_file.FILE_MARK[:8]):
        path.write_bytes(content)
        file = RecordFile(path)
        assert file.is_foreign() and file.records() == [] and file.find(key(0)) is None
        assert file.add(record(0))
        assert RecordFile(path).records() == [record(0)]


@pytest.mark.parametrize("length", range(record_file._HEAD_BYTES + 1))
def test_a_file_that_was_cut_in_its_head_takes_new_records(tmp_path, length):
    path = tmp_path / "f"
    filled(path)
    path.write_bytes(path.read_bytes()[:length])
    new = record("new")
    assert RecordFile(path).add(new) and RecordFile(path).records() == [new]


@settings(max_examples=150)
@given(st.data())
def test_a_damaged_file_gives_whole_records_or_none_and_takes_new_ones(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "f"
    _, made = filled(path)
    content = bytearray(path.read_bytes())
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "remove"]))
    place = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.integers(1, 300))
    if kind == "flip":
        content[place] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        del content[place:]
    elif kind == "insert":
        content[place:place] = data.draw(st.binary(min_size=1, max_size=200))
    else:
        del content[place : place + length]
    path.write_bytes(bytes(content))
    file = RecordFile(path)
    before = file.records()
    assert all(r in made for r in before)
    if kind in ("flip", "insert") and place >= record_file._HEAD_BYTES:
        assert len(before) >= len(made) - 1  # one alone is lost
    new = record("new")
    assert file.add(new)
    assert RecordFile(path).records() == [*before, new]
    assert file.records() == [*before, new]


def test_above_the_limit_the_first_records_go_and_readers_see_that(tmp_path):
    file, reader = RecordFile(tmp_path / "f"), RecordFile(tmp_path / "f")
    for k in range(40):
        file.add(record(k, 1000), limit=10_000)
        assert file.path.stat().st_size <= 11_500
        assert reader.find(key(k)) == record(k, 1000)
    kept = reader.records()
    assert 4 <= len(kept) < 10 and kept[-1] == record(39, 1000)
    assert kept == [record(k, 1000) for k in range(40 - len(kept), 40)]


FULL = """
import resource, signal, sys
from pathlib import Path
from byoc.runtime.files.record_file import FileRecord, RecordFile
file = RecordFile(Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (file.path.stat().st_size + 5000,) * 2)
try:
    file.add(FileRecord(bytes(32), b"", bytes(100_000)))
except OSError as error:
    print(error.strerror)
"""


def test_a_disk_that_is_full_leaves_the_records_that_were_there(tmp_path):
    file, made = filled(tmp_path / "f")
    whole = file.path.read_bytes()
    done = subprocess.run([sys.executable, "-c", FULL, str(file.path)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("File too large\n", "")
    assert file.path.read_bytes() == whole
    assert RecordFile(file.path).records() == made


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into every folder")
def test_a_folder_that_cannot_be_written_raises_and_is_read(tmp_path):
    file, made = filled(tmp_path / "f")
    file.path.chmod(stat.S_IRUSR)
    with pytest.raises(OSError, match="Permission denied"):
        file.add(record("new"))
    assert RecordFile(file.path).records() == made


def test_something_that_is_no_file_raises_and_has_no_records(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        assert RecordFile(path).find(key(0)) is None
        with pytest.raises(OSError, match="it is a pipe|Is a directory"):
            RecordFile(path).add(record(0))


ADDER = """
import sys
from pathlib import Path
from byoc.runtime.files.record_file import FileRecord, RecordFile
import hashlib
file, own = RecordFile(Path(sys.argv[1])), sys.argv[2]
for k in range(60):
    name = f"{own}-{k}"
    file.add(FileRecord(hashlib.sha256(name.encode()).digest(), name.encode(), name.encode() * 200), 1 << 30)
    if k % 20 == 19:
        file.remove(lambda r: r.about.endswith(b"-3"))
"""


def test_processes_and_threads_add_at_once_and_nothing_is_lost(tmp_path):
    path = tmp_path / "f"
    children = [subprocess.Popen([sys.executable, "-c", ADDER, str(path), str(n)]) for n in range(3)]
    file = RecordFile(path)
    threads = [
        threading.Thread(target=lambda n=n: [file.add(record((n, k), 3000)) for k in range(40)]) for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [child.wait() for child in children] == [0, 0, 0]
    found = {r.about.decode() for r in RecordFile(path).records()}
    assert found == {f"{n}-{k}" for n in range(3) for k in range(60) if k != 3} | {
        str((n, k)) for n in range(3) for k in range(40)
    }


def add_at_once(path, count):
    """Records that *count* threads add to the file at *path*, each by an object of its own."""
    start = threading.Barrier(count)

    def add(number):
        start.wait()
        RecordFile(path).add(record(number))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("content", [None, b"foreign"])
def test_those_who_make_a_file_at_once_lose_nothing(content, tmp_path):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for turn in range(50):
            path = tmp_path / str(turn)
            if content is not None:
                path.write_bytes(content)
            add_at_once(path, 4)
            assert {r.key for r in RecordFile(path).records()} == {key(k) for k in range(4)}
    finally:
        sys.setswitchinterval(interval)
