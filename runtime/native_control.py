"""A decision or a loop over libraries as a block that native code calls, without the virtual machine.

Arrays are counted inputs first, then outputs. What cannot be so gives None: a library that is no whole program, that
has regions which may fall back to the host, or whose shapes change from run to run.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.runtime.dso.aot import AotExecutor
from byoc.runtime.dso.native_block import BoundProgram, LoopResultPlace, NativeBlock, called, decided, repeated
from byoc.runtime.dso.native_loop import bytes_of, can_repeat
from byoc.runtime.graph.graph import Kind
from byoc.runtime.library import Library
from byoc.runtime.vm.decisions import Branch, BranchDecision, results_of
from byoc.runtime.vm.loops import Given, LoopBody, Made
from byoc.runtime.vm.program import VMFunction


def native_decision(
    decision: BranchDecision, libraries: Sequence[Library], inputs: Sequence[Kind], outputs: Sequence[Kind]
) -> NativeBlock | None:
    """*decision* over *libraries*, by the numbers of their symbols, for arrays of these kinds."""
    sides = [_branch(side, libraries, inputs, outputs) for side in (decision.then, decision.other)]
    then, other = sides
    return None if then is None or other is None else decided(decision.test, then, other)


def _branch(
    side: Branch, libraries: Sequence[Library], inputs: Sequence[Kind], outputs: Sequence[Kind]
) -> NativeBlock | None:
    program = _bound(libraries[side.packed], [inputs[k] for k in side.inputs])
    if program is None or list(program.outputs) != list(outputs):
        return None
    return called(program, side.inputs, range(len(inputs), len(inputs) + len(outputs)))


def native_loop(
    function: VMFunction,
    body: LoopBody,
    libraries: Sequence[Library],
    inputs: Sequence[Kind],
    outputs: Sequence[Kind],
) -> NativeBlock | None:
    """The loop *function*, whose turns are *body*, for arrays of these kinds; nothing is collected in it."""
    results, call = results_of(function, body), body.call
    given = [source.index for source in body.inputs if isinstance(source, Given)]
    if results is None or call.collected or call.going in call.kept or len(given) != len(body.inputs):
        return None
    kinds = [inputs[k] for k in given]
    if [inputs[p] for p in results] != list(outputs):
        return None
    program = _bound(libraries[body.packed], kinds)
    if program is None or not can_repeat(call, kinds, program.outputs):
        return None
    places = [LoopResultPlace(len(inputs) + k, _made(body, p), p, bytes_of(inputs[p])) for k, p in enumerate(results)]
    if any(p.output is not None and program.outputs[p.output] != inputs[p.given] for p in places):
        return None
    return repeated(program, call, body.decides, given, places)


def _made(body: LoopBody, parameter: int) -> int | None:
    """The output that *parameter* becomes; None where it stays."""
    source = body.next[parameter]
    return source.index if isinstance(source, Made) else None


def _bound(library: Library, kinds: Sequence[Kind]) -> BoundProgram | None:
    executor = library.executor(threads=1)
    return executor.bound(kinds) if isinstance(executor, AotExecutor) else None
