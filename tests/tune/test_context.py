"""Where a time holds: everything that matters is in the context."""

import pkgutil

import pytest

import byoc.codegen.c
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.tune.context import SCHEDULES, Context, cache_sizes, context_of, processor_model, schedules_digest


def test_contexts_differ_by_any_fact_and_not_by_their_order():
    facts = {"compiler": "gcc 12", "flags": "-O3", "model": "a"}
    context = Context.of(facts)
    assert Context.of(dict(reversed(facts.items()))).digest == context.digest
    others = [Context.of({**facts, name: "another"}).digest for name in facts] + [Context.of({}).digest]
    assert len({context.digest, *others}) == 5


def test_the_processor_is_reported_by_its_model_and_not_by_its_speed_of_the_moment(tmp_path):
    info = tmp_path / "cpuinfo"
    first, second = "model name\t: Best 9000\ncpu MHz\t\t: 800.1\nstepping\t: 2", "model name\t: another"
    info.write_text(f"processor\t: 0\n{first}\n\nprocessor\t: 1\n{second}\n")
    assert processor_model(info) == "model name Best 9000, stepping 2"
    assert processor_model(tmp_path / "none") == ""


def test_caches_are_reported_by_level_without_that_of_instructions(tmp_path):
    rows = [("Data", "1", "48K"), ("Instruction", "1", "32K"), ("Unified", "2", "1024K"), ("Unified", "3", "32M")]
    for k, row in enumerate(rows):
        folder = tmp_path / f"index{k}"
        folder.mkdir()
        for name, text in zip(("type", "level", "size"), row, strict=True):
            (folder / name).write_text(f"{text}\n")
    (tmp_path / "index9").mkdir()
    assert cache_sizes(tmp_path) == {1: 48 << 10, 2: 1 << 20, 3: 32 << 20}
    assert cache_sizes(tmp_path / "none") == {}


def test_the_schedules_have_a_digest():
    assert len(schedules_digest()) == 16 and int(schedules_digest(), 16) >= 0


def test_every_room_of_the_c_generator_counts_but_that_of_exported_folders():
    rooms = {f"byoc.codegen.c.{m.name}" for m in pkgutil.iter_modules(byoc.codegen.c.__path__) if m.ispkg}
    assert set(SCHEDULES) == {"byoc.codegen.c", *rooms} - {"byoc.codegen.c.export"}


@pytest.mark.needs_cc
def test_times_of_another_number_of_threads_hold_elsewhere():
    compiler = find_compiler()
    assert len({context_of(compiler, (), threads).digest for threads in (1, 2, 4)}) == 3


@pytest.mark.needs_cc
def test_a_context_is_the_same_under_any_hash_seed(same_under_any_hash_seed):
    assert same_under_any_hash_seed(
        "from byoc.codegen.c.toolchain.compiler import find_compiler\n"
        "from byoc.codegen.tune.context import context_of\n"
        "import dataclasses\ncompiler = find_compiler()\n"
        "machine = dataclasses.replace(compiler.machine, dots=frozenset(map(str, range(9))))\n"
        "print(context_of(dataclasses.replace(compiler, machine=machine), ()).digest)"
    )


def test_what_a_machine_shows_of_itself_is_the_same_under_any_hash_seed(same_under_any_hash_seed):
    shown = same_under_any_hash_seed(
        "from byoc.codegen.c.toolchain.machine import Machine\n"
        "print(repr(Machine(64, 24, 32, frozenset(f'dot_{k}' for k in range(9)))))"
    )
    assert "dot_3" in shown
