"""The pipeline as a value: named passes in named stages, which a user reads and edits.

A name is that of the pass; where a pass stands several times, the second is ``FoldConstant.2`` and so on, whichever is
moved or removed later. Editing gives another pipeline and leaves this one as it is.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from byoc.errors import CompileError, RegistryError, UserError, in_one_line
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import KnownForms, PassTypeError
from byoc.ir.passes.transform import Pass, PassContext, PassInfo, pass_named
from byoc.ir.passes.verification import VerificationError, problem_of
from byoc.ir.registry import GLOBAL_FUNCTIONS

MAKERS = "relay._transform."  # before the name of each pass that is made by its name
NEAREST = 3
MOST_LISTED = 40  # names in a message


@dataclass(frozen=True)
class PipelineStep:
    """A pass in the pipeline under its *label*.

    ``run`` is None where something else gives the passes (the precision). With ``when`` the step is for compilations of
    that kind alone. ``is_users`` is True for a pass that somebody put there.
    """

    label: str
    run: Pass | None
    when: str = ""
    is_users: bool = False

    @property
    def name(self) -> str:
        """The name of the pass, by which contexts and reports know it."""
        return self.label if self.run is None else self.run.info.name

    def __str__(self) -> str:
        level = 0 if self.run is None else self.run.info.opt_level
        notes = [f"from level {level}"] if level > LEVEL else []
        notes += [f"with {self.when}"] if self.when else []
        notes += ["yours"] if self.is_users else []
        return self.label + (f"  ({', '.join(notes)})" if notes else "")


LEVEL = 3  # what byoc.compile runs at, unless the context asks for more


class Pipeline:
    """Passes by name, in the order in which they run, in stages. Made by :func:`byoc.pipeline`.

    Every pass in it that a user gives is a :class:`~byoc.ir.passes.transform.Pass`, or the registered name of one.
    """

    def __init__(self, stages: Mapping[str, Sequence[PipelineStep]]):
        self._stages = {stage: tuple(steps) for stage, steps in stages.items()}
        *before_cut, _ = self._stages  # the last stage is that of what was cut
        for stage, steps in self._stages.items():
            known = KnownForms()
            for step in steps:
                if step.run is not None:
                    info = step.run.info
                    known.check(step.label, info.needs)
                    known.after(step.label, info.gives, info.ends)
            if stage in before_cut:
                known.check_cut(stage)

    @property
    def stages(self) -> Mapping[str, tuple[str, ...]]:
        """The names of each stage's passes, in order."""
        return {stage: tuple(step.label for step in steps) for stage, steps in self._stages.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all passes, in order."""
        return tuple(step.label for step in self.steps())

    def steps(self, stage: str | None = None) -> Iterator[PipelineStep]:
        """The steps of *stage*, or of all."""
        for name, steps in self._stages.items():
            if stage is None or name == stage:
                yield from steps

    def passes(
        self, stage: str, kinds: Collection[str] = (), given: Mapping[str, Sequence[Pass]] | None = None
    ) -> list[Pass]:
        """The passes of *stage* in a compilation of these *kinds* (``Step.when``).

        *given* are the passes of steps that have none of their own.
        """
        found: list[Pass] = []
        for step in self.steps(stage):
            if step.when and step.when not in kinds:
                continue
            if step.run is None:
                found += (given or {}).get(step.label, ())
            else:
                found.append(GuardedPass(step.run, stage) if step.is_users else step.run)
        return found

    # editing ---------------------------------------------------------------------------------------------------------

    def insert_before(self, name: str, *passes: Pass | str) -> Pipeline:
        """Put *passes* before the one called *name*; of several of that name before the first.

        Raises:
            UserError: there is no such name (the nearest are listed), or a pass then stands after one that ends what it
                needs.
            PassTypeError: something that is no pass.
        """
        return self._inserted(name, 0, passes)

    def insert_after(self, name: str, *passes: Pass | str) -> Pipeline:
        """Put *passes* behind the one called *name*; of several of that name behind the first.

        Raises as insert_before.
        """
        return self._inserted(name, 1, passes)

    def remove(self, *names: str) -> Pipeline:
        """Leave passes out: a plain name means every pass of that name, ``FoldConstant.2`` the second alone.

        Raises UserError with the nearest names for one that is not there.
        """
        gone: set[str] = set()
        for name in names:
            same = [step.label for step in self.steps() if name in (step.name, step.label)]
            gone.update(same if same and _is_plain(name) else [self._find(name)])
        return Pipeline({stage: [s for s in steps if s.label not in gone] for stage, steps in self._stages.items()})

    def replace(self, name: str, *passes: Pass | str) -> Pipeline:
        """Put *passes* where the one called *name* is. Raises as insert_before."""
        label = self._find(name)
        return self._inserted(label, 0, passes)._without(label)

    def move(self, name: str, *, before: str | None = None, after: str | None = None) -> Pipeline:
        """Take the pass called *name* to another place, in another stage too.

        Raises UserError unless exactly one of *before* and *after* is given, and as insert_before.
        """
        target = before if before is not None else after
        if target is None or (before is not None and after is not None):
            raise UserError(f"moving {name}: say before which pass, or after which, it shall stand")
        label, target = self._find(name), self._find(target)
        if label == target:
            raise UserError(f"moving {name}: it cannot stand before or after itself")
        step = next(step for step in self.steps() if step.label == label)
        rest = {stage: [s for s in steps if s is not step] for stage, steps in self._stages.items()}
        return Pipeline(_placed(rest, target, int(after is not None), [step]))

    def _inserted(self, name: str, offset: int, passes: Sequence[Pass | str]) -> Pipeline:
        label = self._find(name)
        taken = set(self.names)
        steps = [PipelineStep(next_label(made.info.name, taken), made, is_users=True) for made in map(_pass_of, passes)]
        return Pipeline(_placed(self._stages, label, offset, steps))

    def _without(self, label: str) -> Pipeline:
        """Leave out the one pass of this *label*."""
        return Pipeline({stage: [s for s in steps if s.label != label] for stage, steps in self._stages.items()})

    def _find(self, name: str) -> str:
        """The label that *name* means. Raises UserError with the nearest names."""
        for step in self.steps():
            if name == step.label:
                return step.label
        for step in self.steps():
            if name == step.name:  # the first of this name was removed or moved behind another
                return step.label
        raise UserError(f"the pipeline has no pass {name!r}; {nearest(name, (step.name for step in self.steps()))}")

    def __str__(self) -> str:
        """A line for each pass under its stage."""
        blocks = ["\n".join([f"{stage}:", *(f"  {step}" for step in steps)]) for stage, steps in self._stages.items()]
        return "\n".join(blocks)

    def __repr__(self) -> str:
        return f"Pipeline({', '.join(self.names)})"


class GuardedPass(Pass):
    """A pass of a user's: whatever goes wrong in it, or by it, is reported with its name."""

    def __init__(self, inner: Pass, stage: str):
        super().__init__(inner.info)
        self._inner, self._stage = inner, stage

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """*mod* after the pass. Raises CompileError where it raises, gives no module, or one that breaks the laws."""
        title = f"the pass {self.info.name}, which stands in stage {self._stage} of the pipeline,"
        had_main = "main" in mod  # looked at first, since a pass may write into the module that it is given
        try:
            made = self._inner.transform_module(mod, ctx)
        except VerificationError as error:
            raise CompileError(f"{title} gives a module that is not well formed: {error.problem}") from error
        except Exception as error:  # whatever a user's code raises
            raise CompileError(f"{title} raised {in_one_line(error)}") from error
        if not isinstance(made, IRModule):
            raise CompileError(f"{title} gives a {type(made).__name__}, and must give an IRModule")
        if had_main and "main" not in made:
            raise CompileError(f"{title} gives a module without the function main")
        problem = problem_of(made)
        if problem is not None:
            raise CompileError(f"{title} gives a module that is not well formed: {problem}")
        return made


def next_label(name: str, taken: set[str]) -> str:
    """*name*, or ``name.2`` and so on where labels of it are *taken*; it is taken then."""
    label, number = name, 1
    while label in taken:
        number += 1
        label = f"{name}.{number}"
    taken.add(label)
    return label


def labelled(stages: Mapping[str, Iterable[PipelineStep]]) -> dict[str, list[PipelineStep]]:
    """*stages* with labels that differ, over all stages."""
    taken: set[str] = set()
    return {
        stage: [dataclasses.replace(step, label=next_label(step.name, taken)) for step in steps]
        for stage, steps in stages.items()
    }


def nearest(name: str, known: Iterable[str]) -> str:
    """``the nearest: …`` for a message about *name*."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=NEAREST, cutoff=0.6)
    if near:
        return f"the nearest: {', '.join(near)}"
    return f"it has {', '.join(names)}" if len(names) <= MOST_LISTED else "print(byoc.pipeline()) shows byoc's own"


def _is_plain(name: str) -> bool:
    return not name.rpartition(".")[2].isdecimal()


def _pass_of(item: Pass | str) -> Pass:
    made = _made_by_name(item) if isinstance(item, str) else item
    if not isinstance(made, Pass):
        raise PassTypeError(
            f"a pipeline holds passes, got {type(made).__name__}: make one with byoc.relay.transform.module_pass or "
            "byoc.relay.transform.function_pass"
        )
    return made


def _made_by_name(name: str) -> Pass:
    """The registered pass *name*. Raises RegistryError where there is none, UserError for one that needs arguments."""
    key = name if "transform." in name else f"{MAKERS}{name}"
    if key not in GLOBAL_FUNCTIONS:
        known = (k.removeprefix(MAKERS) for k in GLOBAL_FUNCTIONS if k.startswith(MAKERS))
        raise RegistryError(f"no pass is registered as {name!r}; {nearest(name, known)}")
    try:
        return pass_named(name)
    except TypeError as error:
        raise UserError(f"{name} is not made by its name alone ({error}): give the pass that it makes") from error


def _placed(
    stages: Mapping[str, Sequence[PipelineStep]], label: str, offset: int, steps: Sequence[PipelineStep]
) -> dict[str, list[PipelineStep]]:
    """*stages* with *steps* before or (*offset* 1) behind the step of *label*."""
    result: dict[str, list[PipelineStep]] = {}
    for stage, old in stages.items():
        at = next((k for k, step in enumerate(old) if step.label == label), None)
        result[stage] = list(old) if at is None else [*old[: at + offset], *steps, *old[at + offset :]]
    return result


__all__ = ["GuardedPass", "PassInfo", "Pipeline", "PipelineStep"]
