"""What a worker was stopped, or had no processor, is no time that it took; what has no end says where it stands."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from byoc.testing.core import child_process, own_time, worker_pool
from byoc.testing.core.own_time import OwnTime
from byoc.testing.core.worker_pool import Done, Lost, WorkerPool

pytestmark = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="Linux alone says it")
LIMIT = 2.5  # of what ends: far more than it takes
NEVER = 1000.0  # of what has no end, which the test says


def opening(progress):
    return progress


@dataclass(frozen=True)
class Work:
    """Does *act* with the file in which it says who it is."""

    act: object
    file: Path
    patience: float = 1.0

    def do(self, progress):
        progress("run")
        with open(self.file, "a") as out:
            out.write(f"{os.getpid()}\n")
        return self.act(self.file)


def outcome(act, file, beside=None, opens=opening, limit=LIMIT):
    """What becomes of a task on a pool of one worker; *beside* is called with the worker's number, meanwhile."""
    helper = threading.Thread(target=lambda: beside(_first(file))) if beside else None
    with WorkerPool(opens, 1, limit, "its tasks are of this test") as pool:
        if helper is not None:
            helper.start()
        ended = pool.one(Work(act, file))
    if helper is not None:
        helper.join()
    return ended


@pytest.fixture
def hung(monkeypatch, tmp_path):
    """A function: what becomes of a task that has no end, whose time is over when it says that it stands; *held_up*
    is whether its worker was stopped or without a processor.
    """

    def outcome_of(act, held_up=False, opens=opening):
        class GivenTime(OwnTime):
            was_held_up = held_up

            def is_over(self, limit):
                is_over = super().is_over(limit)
                return is_over or bool(limit == NEVER and self._threads and (tmp_path / f"stands_{self.pid}").exists())

        monkeypatch.setattr(worker_pool, "OwnTime", GivenTime)
        monkeypatch.setattr(child_process, "ASK_SECONDS", 3.0)
        return outcome(act, tmp_path / "pids", opens=opens, limit=NEVER)

    return outcome_of


def stands(file):
    """Say that this worker stands still."""
    file.with_name(f"stands_{os.getpid()}").touch()


def _first(file):
    while not file.exists() or not file.read_text().endswith("\n"):
        time.sleep(0.01)
    return int(file.read_text().split()[0])


def stop(pid, seconds=1.5 * LIMIT):
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def short(file):
    time.sleep(0.5)
    return "right"


def computes(file):
    while time.process_time() < LIMIT / 4:
        pass
    return "right"


def hangs_once(file):
    while len(file.read_text().split()) == 1:
        stands(file)
        time.sleep(0.01)
    return "right"


def hangs(file):
    stands(file)
    threading.Event().wait()


def deadlock(file):
    first, second = threading.Lock(), threading.Lock()
    both = threading.Barrier(2)

    def other():
        with second:
            both.wait()
            first.acquire()

    threading.Thread(target=other, daemon=True).start()
    with first:
        both.wait()
        stands(file)
        second.acquire()


def sleeps(file):
    process = subprocess.Popen(["sleep", "1000"])
    stands(file)
    process.wait()


def test_a_worker_that_was_stopped_for_longer_than_its_limit_is_not_one_without_end(tmp_path):
    assert outcome(short, tmp_path / "pids", stop) == Done("right")
    assert len((tmp_path / "pids").read_text().split()) == 1


def test_a_worker_that_waits_for_a_processor_is_not_one_without_end(tmp_path):
    def crowd(pid):
        one = {min(os.sched_getaffinity(0))}
        os.sched_setaffinity(pid, one)
        code = f"import os; os.sched_setaffinity(0, {one})\nwhile os.path.exists('/proc/{pid}'): pass"
        beside = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
        crowds.extend(beside)

    crowds = []
    try:
        assert outcome(computes, tmp_path / "pids", crowd) == Done("right")
    finally:
        for process in crowds:
            process.kill()
            process.wait()


def test_what_has_no_end_where_it_was_held_up_is_tried_once_more(hung, tmp_path):
    assert hung(hangs_once, held_up=True) == Done("right")
    assert len((tmp_path / "pids").read_text().split()) == 2


def test_what_has_no_end_though_it_was_not_held_up_is_not_tried_again(hung, tmp_path):
    ended = hung(hangs)
    assert isinstance(ended, Lost) and ended.hung and "tried twice" not in ended.text
    assert len((tmp_path / "pids").read_text().split()) == 1


def test_what_has_no_end_twice_is_reported_with_both(hung):
    ended = hung(hangs, held_up=True)
    assert isinstance(ended, Lost) and ended.hung and ended.step == "run"
    assert ended.text.startswith(f"no end after {NEVER:g} s (test_busy_machine.py:")
    assert "; tried twice, since its worker was stopped or without a processor" in ended.text


@dataclass(frozen=True)
class SlowAgain:
    """An opening that stands for *seconds* in each worker but the first."""

    file: Path
    seconds: float

    def __call__(self, progress):
        if self.file.exists():
            stands(self.file)
            time.sleep(self.seconds)
            self.file.with_name(f"stands_{os.getpid()}").unlink()
        return progress


def test_the_start_of_a_worker_that_tries_a_task_again_is_no_time_of_the_task(hung, tmp_path):
    assert hung(hangs_once, held_up=True, opens=SlowAgain(tmp_path / "pids", 1.5)) == Done("right")


def test_a_worker_that_is_not_ready_to_try_a_task_again_is_named(hung, tmp_path, monkeypatch):
    monkeypatch.setattr(worker_pool, "START_SECONDS", LIMIT)
    ended = hung(hangs_once, held_up=True, opens=SlowAgain(tmp_path / "pids", NEVER))
    assert isinstance(ended, Lost) and ended.hung and ended.step == "run"
    assert ended.text.startswith(f"no end after {NEVER:g} s; another worker, which was to try it again, is not ready ")


def test_a_deadlock_is_reported_with_where_each_thread_stands(hung):
    ended = hung(deadlock)
    assert isinstance(ended, Lost) and ended.hung
    assert "(test_busy_machine.py:" in ended.text and ", deadlock)" in ended.text, ended.text
    assert "other threads of Python at test_busy_machine.py:" in ended.text and ", other" in ended.text
    assert re.search(r"; it computed for \d+\.\d s of them", ended.text), ended.text
    assert "of its 2 threads 2 asleep" in ended.text, ended.text


def test_a_process_that_it_waits_for_is_named(hung):
    ended = hung(sleeps)
    assert isinstance(ended, Lost) and "; sleep is asleep" in ended.text, ended.text


def test_a_process_that_is_stopped_has_no_time_of_its_own():
    process = subprocess.Popen(["sleep", "1000"])
    try:
        os.kill(process.pid, signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        spent = OwnTime(process.pid)
        while spent.elapsed < 1:
            assert not spent.is_over(NEVER)
            time.sleep(0.05)
        assert spent.seconds == 0 and spent.was_held_up
    finally:
        process.kill()
        process.wait()


def test_the_time_of_a_process_is_what_went_by_where_nothing_stopped_it():
    process = subprocess.Popen(["sleep", "60"])
    try:
        spent = OwnTime(process.pid)
        while not spent.is_over(0.5):
            time.sleep(0.05)
        assert 0.5 < spent.seconds <= spent.elapsed
    finally:
        process.kill()
        process.wait()


# by threads: seconds computed and seconds waited for a processor of ten that went by; the processors that they may use;
# what of the ten is the process's own
SHARES = {
    "asleep": ([(0, 0)], 2, 10),
    "alone": ([(10, 0)], 1, 10),
    "beside four programs": ([(2, 8)], 1, 2),
    "three threads of its own on one processor": ([(0, 0), (3, 7), (3, 7), (4, 6)], 1, 10),
    "four threads of its own on two processors": ([(5, 5)] * 4, 2, 10),
    "two threads on two processors, and so has another program": ([(5, 5)] * 2, 2, 5),
    "three threads on one processor beside three of another program": ([(2, 8), (2, 8), (1, 9)], 1, 5),
    "threads that take turns": ([(5, 0.5), (5, 0.5)], 2, 9.5),
}


@pytest.mark.parametrize("share", SHARES)
def test_a_thread_that_waits_for_others_of_its_process_takes_no_time_from_it(tmp_path, monkeypatch, share):
    threads, processors, own = SHARES[share]
    now = 0.0

    def write(part):
        for number, (computed, waited) in enumerate(threads):
            folder = tmp_path / "1" / "task" / str(number + 1)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "stat").write_text("1 (python) R 0")
            (folder / "schedstat").write_text(f"{int(computed * part * 1e9)} {int(waited * part * 1e9)} 1")

    monkeypatch.setattr(own_time, "PROC", tmp_path)
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("os.sched_getaffinity", lambda task: set(range(processors)))
    spent = OwnTime(1)
    spent.begin()
    write(0.0)
    now = 1.0
    assert not spent.is_over(100.0)
    for second in range(10):
        write((second + 1) / 10)
        now += 1.0
        assert not spent.is_over(100.0)
    assert spent.elapsed == 11 and spent.seconds == pytest.approx(1 + own)
    assert spent.was_held_up == (own < 9)


CROWD = """
import hashlib, threading
data = bytes(1 << 20)
def work():
    while True:
        hashlib.sha256(data)  # without Python's lock
for _ in range(3):
    threading.Thread(target=work).start()
print("begun", flush=True)
"""


def test_what_threads_of_one_process_compute_is_its_own_time():
    command = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}}){CROWD}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        spent = OwnTime(process.pid)
        first = None
        while spent.elapsed < 2:
            spent.is_over(1000.0)
            time.sleep(0.05)
            first = first or _computed(process.pid)
        last = _computed(process.pid)
    finally:
        process.kill()
        process.communicate()
    assert spent.seconds > 0.7 * (last - first)


def _computed(pid):
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def naps(file):
    time.sleep(0.05)
    return os.getpid()


def meets_another(file):
    until = time.monotonic() + 60
    while len(set(file.read_text().split())) == 1 and time.monotonic() < until:
        time.sleep(0.01)
    return os.getpid()


def test_with_many_tasks_a_second_worker_starts_with_the_first_and_nobody_waits_for_it(tmp_path):
    with WorkerPool(opening, 2, 600.0, "its tasks are of this test") as pool:
        pool.expect(100)
        ended = dict(pool.run((k, Work(meets_another, tmp_path / "pids")) for k in range(12)))
    assert sorted(ended) == list(range(12)) and all(isinstance(e, Done) for e in ended.values())
    assert len({e.value for e in ended.values()}) == 2


def test_a_few_tasks_are_worth_one_worker(tmp_path):
    with WorkerPool(opening, 2, 600.0, "its tasks are of this test") as pool:
        ended = dict(pool.run((k, Work(naps, tmp_path / "pids")) for k in range(4)))
    assert len({e.value for e in ended.values()}) == 1


def test_tasks_that_were_expected_are_worth_no_workers_after_their_run(tmp_path):
    with WorkerPool(opening, 2, 600.0, "its tasks are of this test") as pool:
        pool.expect(100)
        list(pool.run([(0, Work(naps, tmp_path / "pids"))]))
        pool.close()
        ended = dict(pool.run((k, Work(naps, tmp_path / "pids")) for k in range(4)))
    assert len({e.value for e in ended.values()}) == 1
