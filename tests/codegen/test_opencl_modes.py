"""The modes of the OpenCL backend: their text, their contradictions, and where they are carried."""

from __future__ import annotations

import pytest

import byoc
from byoc.cli.flags.generator_options import _parts
from byoc.codegen.opencl.device.options import Mode, OpenCLOptions
from byoc.contract.options import checked_options
from byoc.driver.options import CompileRequest
from byoc.errors import UserError
from byoc.options.declaration import key_text

LEVELS = ("none", "fast", "normal", "wide", "heavy")


@pytest.mark.parametrize("tuning", ["", *LEVELS])
@pytest.mark.parametrize("memory", ["auto", "buffer", "image", "trial"])
@pytest.mark.parametrize("flush", ["", "none", "1", "2", "10", "auto"])
@pytest.mark.parametrize("record", ["", "none", "batch"])
def test_a_mode_says_each_of_its_words_and_is_read_back_from_them(tuning, memory, flush, record):
    chosen = {"tuning": tuning, "memory": memory, "flush": flush, "record": record}
    mode = Mode.of(", ".join(f"{kind}={word}" for kind, word in chosen.items() if word))
    assert (mode.tuning, mode.memory, mode.flush, mode.record) == (tuning, memory, flush, record)
    assert Mode.of(mode.text()) == mode == Mode.of(int(mode))


def test_the_numbers_are_mnns_where_it_has_them():
    """``MNNGpuMode`` of ``include/MNN/MNNForwardType.h``."""
    assert {m.name: int(m) for m in Mode if m < 256} == {
        "TUNING_NONE": 1,
        "TUNING_HEAVY": 2,
        "TUNING_WIDE": 4,
        "TUNING_NORMAL": 8,
        "TUNING_FAST": 16,
        "MEMORY_BUFFER": 64,
        "MEMORY_IMAGE": 128,
    }
    assert Mode.RECORD_BATCH == 512


@pytest.mark.parametrize("first", LEVELS)
@pytest.mark.parametrize("second", LEVELS)
def test_two_levels_at_once_contradict_each_other(first, second):
    text = f"tuning={first},tuning={second}"
    if first == second:
        assert Mode.of(text).tuning == first
        return
    with pytest.raises(UserError, match=r"^opencl\.mode: tuning is \w+ or \w+, not both; give one$"):
        Mode.of(text)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Mode.MEMORY_BUFFER | Mode.MEMORY_IMAGE, "memory is buffer or image, not both"),
        ("memory=buffer,memory=trial", "memory is buffer or trial, not both"),
        ("flush=1,flush=auto", "flush is 1 or auto, not both"),
        ("record=batch,record=none", "record is batch or none, not both"),
        ("flush=3", "flush is one of none, 1, 2, 10, auto, got '3'"),
        ("tuning=best", "tuning is one of none, fast, normal, wide, heavy, got 'best'"),
        ("fast", "expected words like 'tuning=normal,memory=image', of tuning, memory, flush, record"),
        ("threads=4", "of tuning, memory, flush, record, each with a value; got 'threads=4'"),
        (32, "32 has bits that are no mode"),
        (256, "256 has bits that are no mode"),  # RECORD_OP of MNN
        (1 << 17, "131072 has bits that are no mode"),
        ((1 << 40) | 8, "1099511627784 has bits that are no mode"),
        (-1, "-1 has bits that are no mode"),
        (True, "expected a Mode or a text like"),
        (1.0, "expected a Mode or a text like"),
        (None, "expected a Mode or a text like"),
    ],
)
def test_what_is_no_mode_is_reported_in_one_sentence(given, message):
    with pytest.raises(ValueError, match=message):
        Mode.of(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"opencl": {"winograd": "f6"}}, "option 'winograd' of backend opencl is one of auto, off, f2, f4, got 'f6'"),
        ({"opencl": {"schedules": "gpus"}}, "option 'schedules' of backend opencl is one of auto, cpu, gpu, got 'g"),
        ({"opencl": {"schedules": ["gpu"]}}, "option 'schedules' of backend opencl is one of auto, cpu, gpu, got"),
        ({"opencl": {"max_error": -1}}, "option 'max_error' of backend opencl is a number from 0 on, got -1"),
        ({"opencl": {"half": "maybe"}}, "opencl.half is one of auto, memory, compute, got 'maybe'"),
        ({"opencl": {"thresholds": "long_reduction=0"}}, r"opencl\.thresholds: long_reduction is a number from 1 to"),
        ({"c": {"winograd": "f6"}}, "option 'winograd' of backend c is one of auto, off, f2, f4, got 'f6'"),
        ({"c": {"strict": "yes"}}, "option 'strict' of backend c is True or False, got 'yes'"),
        ({"c": {"flags": "-O3"}}, "option 'flags' of backend c is a list of strings, got '-O3'"),
        ({"int8_npu": {"device": "board"}}, "the device of int8_npu is one of"),
    ],
)
def test_a_wrong_word_is_a_mistake_and_no_failure_that_the_host_stands_in_for(given, message):
    """It is said before the model is read, which here is none."""
    with pytest.raises(UserError, match=f"^{message}"):
        byoc.compile(b"", ["opencl", "int8_npu", "c"], backend_options=given, fallback=True)


def test_the_command_line_and_the_dictionary_say_the_same():
    backend, name, value = _parts("opencl.mode=tuning=normal,memory=image")
    given = checked_options({backend: {name: value}})["opencl"]
    assert OpenCLOptions.of(given).mode == Mode.TUNING_NORMAL | Mode.MEMORY_IMAGE


@pytest.mark.parametrize("options", [{"mode": "tuning=none,tuning=heavy"}, {"half": "double"}, {"device": 1.5}])
def test_compile_refuses_before_it_reads_the_model(options):
    with pytest.raises(UserError, match=r"^opencl\."):
        byoc.compile(b"no model", ["opencl"], backend_options={"opencl": options})


def test_modes_have_keys_of_their_own_in_the_cache():
    texts = {
        key_text(CompileRequest("m.onnx", ("c",), backend_options={"opencl": {"mode": mode}}))
        for mode in ("tuning=none", "tuning=heavy", Mode.TUNING_NONE, Mode.TUNING_HEAVY, "memory=image")
    }
    assert len(texts - {None}) >= 3


def test_a_trial_of_memories_goes_by_two_words():
    assert Mode.of("memory=auto-trial") == Mode.MEMORY_TRIAL
    assert Mode.of("memory=auto-trial").text() == "memory=trial"
