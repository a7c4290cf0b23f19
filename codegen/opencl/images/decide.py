"""The memory object of a module's tensors by the user's mode, by the table or by a trial, with a note on the choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from byoc.codegen.opencl.images.choice import AUTO, BUFFER, IMAGE, TRIAL
from byoc.codegen.opencl.images.memory_rule import rule_for
from byoc.codegen.opencl.images.trial import FORMS, Form, try_memory
from byoc.errors import DeviceError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.opencl.commands.options import RunOptions
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.opencl.module import OpenCLModule

Constants = Callable[[str], Mapping[str, NDArray]]


def in_memory(wanted: str, form: Callable[[str], Form], constants: Constants, device: str = "") -> tuple[str, Form]:
    """The memory for what is *wanted* (``auto``, ``buffer``, ``image`` or ``trial``), and source and plans for it.

    *form* gives these for ``buffer`` and ``image``, *constants* the constants; *device* is the backend's option.

    Raises DeviceError where a trial finds that neither runs.
    """
    if wanted == AUTO:
        memory, note = _by_rule(device)
        return memory, _noted(form(memory), note)
    if wanted != TRIAL:
        return wanted, form(wanted)
    forms = {memory: form(memory) for memory in FORMS}
    run = RunOptions(device=device)
    found = try_memory(forms, lambda memory: OpenCLModule(*forms[memory], constants(memory), run), device)
    return found.memory, _noted(forms[found.memory], found.note)


def _by_rule(device: str) -> tuple[str, str]:
    """The memory for the device here, and a note where that is not the usual one; buffers where there is no device."""
    try:
        info = open_device(device).info
    except DeviceError:
        return BUFFER, ""
    rule = rule_for(info)
    return rule.memory, f"memory=auto: images on {info.name}, since {rule.why}" if rule.memory == IMAGE else ""


def _noted(form: Form, note: str) -> Form:
    source, plans = form
    return (source, tuple(replace(p, notes=(note, *p.notes)) for p in plans)) if note else form
