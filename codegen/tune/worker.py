"""The process in which candidates run: it takes batches from a connection, and answers what became of them.

Started as ``python -m byoc.codegen.tune.worker DESCRIPTOR`` by ``worker_process.py``, whose end ends it too. Before a
candidate does anything its number is sent, so that the other side knows which it was when no more comes.
"""

from __future__ import annotations

import signal
import sys
from multiprocessing.connection import Connection

from byoc.codegen.tune.trial_batch import AnyTrialBatch
from byoc.runtime.core.errors import ByocError

RUNNING, DONE, FAILED = "running", "done", "failed"


def serve(connection: Connection) -> None:
    """Run batches until the other side closes the connection."""
    while True:
        try:
            batch = connection.recv()
        except EOFError:
            return
        connection.send(_answer(connection, batch))


def _answer(connection: Connection, batch: AnyTrialBatch) -> tuple[str, object]:
    try:
        return DONE, batch.run(lambda number: connection.send((RUNNING, number)))
    except (ByocError, MemoryError) as error:
        return FAILED, str(error) or type(error).__name__


def main() -> None:
    """Serve the connection that the command line names."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other side decides what an interruption ends
    serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
