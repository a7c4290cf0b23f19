"""The options that say where what is known of kernels is kept, and for how many threads they are timed."""

from __future__ import annotations

import argparse
from pathlib import Path

from byoc.base.progress import Progress
from byoc.codegen.tune.database import Database
from byoc.codegen.tune.level import level_named
from byoc.codegen.tune.tuner import Tuner, own_database
from byoc.errors import UserError


def add_tuning_options(command: argparse.ArgumentParser) -> None:
    """The options of every command that tunes."""
    command.add_argument(
        "--database",
        metavar="FOLDER",
        help="where what won is looked up and kept (default: the folder tune of the cache folder)",
    )
    command.add_argument(
        "--tune-threads",
        type=int,
        metavar="N",
        help="with how many threads kernels are timed (default: those of a run of the model on this machine)",
    )


def database_of(arguments: argparse.Namespace) -> Database:
    """The database that the command line names. Raises UserError for a place where no folder can be."""
    if arguments.database is None:
        return own_database()
    folder = Path(arguments.database)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: this is a file; the database is a folder: hand a file on with byoc tune --import")
    return Database(folder)


def tuner_from(arguments: argparse.Namespace, level: str, progress: Progress, again: bool = False) -> Tuner:
    """The tuner of that *level* that the command line describes. Raises UserError for a number of threads below 1."""
    return Tuner(level_named(level), database_of(arguments), again, progress=progress, threads=arguments.tune_threads)
