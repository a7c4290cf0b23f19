"""Regions as programs of steps (``region_program.py``) that a library's functions compute: the half for an artefact.

A subclass says how a program is run; what every such module does (arguments, constants, the file) stands here.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from typing import ClassVar

from byoc.contrib.region_program import RegionProgram, checked_program
from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.core.strict_json import at, numbered, object_of, read_json, text_of
from byoc.runtime.modules.contiguous_module import ContiguousModule
from byoc.runtime.modules.module import Members
from byoc.runtime.modules.saving import opened, sealed

PROGRAM, VERSION = "program.json", 1


class ProgramModule(ContiguousModule):
    """Symbols as programs. A subclass has the class attributes and :meth:`run`.

    Attributes:
        content_kind: what artefacts call what it holds.
        operators: those that steps may have.
        settings: names of texts that a module is made with beside its programs, and saves.
    """

    content_kind: ClassVar[str]
    operators: ClassVar[Container[str]]
    settings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, programs: Mapping[str, RegionProgram], signatures: Sequence[Signature], *settings: str):
        super().__init__(signatures)
        self.programs = dict(programs)
        self.symbols = tuple(self.programs)
        self.chosen = dict(zip(self.settings, settings, strict=True))

    def constants(self) -> Mapping[str, Sequence[str]]:
        return {symbol: [spec.name for spec in s.constants] for symbol, s in self.signatures.items()}

    def constant_specs(self, symbol: str) -> Sequence[TensorSpec]:
        return self.signatures[symbol].constants

    def save(self) -> dict[str, bytes]:
        data = {
            **self.chosen,
            "signatures": [s.to_json() for s in self.signatures.values()],
            "programs": list(self.programs.values()),
        }
        return sealed(self.content_kind, VERSION, {PROGRAM: json.dumps(data, indent=1).encode()})

    @classmethod
    def load(cls, members: Members) -> ProgramModule:
        _, content = opened(members, cls.content_kind, VERSION)
        if PROGRAM not in content:
            raise ArtifactError(f"{PROGRAM} is missing: save the model again")
        fields = (*cls.settings, "signatures", "programs")
        data = object_of(read_json(content[PROGRAM], PROGRAM), PROGRAM, fields)
        signatures = Signature.list_from_json(data["signatures"], at(PROGRAM, "signatures"))
        programs = [checked_program(item, place, cls.operators) for place, item in numbered(data, "programs", PROGRAM)]
        if len(programs) != len(signatures):
            raise ArtifactError(f"{PROGRAM}: {len(programs)} programs for {len(signatures)} symbols")
        settings = [text_of(data[name], at(PROGRAM, name)) for name in cls.settings]
        return cls(dict(zip([s.symbol for s in signatures], programs, strict=True)), signatures, *settings)
