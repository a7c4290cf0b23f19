"""Who tunes: the host's code and every backend that declares the option ``tune``, by one tuner and one report.

``tune`` of ``byoc.compile`` is for all of them. A backend's own options may ask for a level too, for its kernels alone;
another level than that of ``tune`` contradicts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from byoc.base.progress import Progress
from byoc.codegen.tune import NO_TUNING, TUNE
from byoc.contract.registration import backend_names, get_backend
from byoc.errors import PartitionError, UserError

if TYPE_CHECKING:
    from byoc.codegen.tune.tuner import Tuner

BackendOptions = Mapping[str, Mapping[str, object]]


def tuner_for(asked: object, backend_options: BackendOptions, progress: Progress | None = None) -> Tuner | None:
    """The tuner that ``tune`` (*asked*: a level or a tuner) and *backend_options* ask for; None where nothing is
    tuned.

    Raises UserError for an unknown level, and where two levels are asked for.
    """
    levels = _levels(backend_options)
    if asked == NO_TUNING and all(level == NO_TUNING for level in levels.values()):
        return None
    from byoc.codegen.tune.level import LEVELS
    from byoc.codegen.tune.tuner import tuner_of

    tuner = tuner_of(asked, progress)
    for name, level in levels.items():
        if tuner.tunes and level != tuner.level.name:
            raise UserError(
                f"tune is {tuner.level.name}, and the options of backend {name} ask for tuning={level}: "
                "give one of them, or the same level"
            )
        if not tuner.tunes and LEVELS[level].rounds:
            tuner = tuner_of(level, progress)
    return tuner


def with_tuner(backend_options: BackendOptions, tuner: Tuner | None, asked: object) -> BackendOptions:
    """*backend_options* with *tuner*, where it tunes: for all that tune, or where *asked* tunes nothing for those whose
    own options say so.
    """
    if tuner is None or not tuner.tunes:
        return dict(backend_options)
    from byoc.codegen.tune.level import LEVELS
    from byoc.codegen.tune.tuner import tuner_of

    levels = _levels(backend_options)
    if tuner_of(asked).tunes:
        tuning = [name for name in backend_names() if _tunes(name)]
    else:
        tuning = [name for name, level in levels.items() if LEVELS[level].rounds]
    return {**backend_options, **{n: {**backend_options.get(n, {}), TUNE: tuner} for n in tuning}}


def _tunes(name: str) -> bool:
    """Whether the backend *name* tunes; one that cannot be used does not, and whoever asks for it gets the reason."""
    try:
        return TUNE in (get_backend(name).options or ())
    except PartitionError:
        return False


def _levels(backend_options: BackendOptions) -> dict[str, str]:
    """The levels that options ask for, by the backend's name."""
    found = {name: get_backend(name).tuning_level(options) for name, options in backend_options.items()}
    return {name: level for name, level in found.items() if level is not None}
