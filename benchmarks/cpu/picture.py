"""The benchmark's picture: for each number of threads our speed against each peer's, a group of bars a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.cpu.results import Cell
from benchmarks.engines import OURS

COLOURS = ("#4477aa", "#ee6677", "#228833")


def draw(cells: Sequence[Cell], path: Path, title: str) -> None:
    """Write *path* (``.png``, ``.svg``): bars of peer's time over ours; above the line at 1 we are faster.

    Needs matplotlib. Raises ValueError when no cell has figures of ours and of a peer.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    kept = [c for c in cells if c.ratio_to_better is not None]
    if not kept:
        raise ValueError("no model has figures of ours and of a peer: there is nothing to draw")
    counts = list(dict.fromkeys(c.threads for c in kept))
    figure, axes = pyplot.subplots(
        len(counts),
        1,
        figsize=(1.5 + 1.1 * len(kept) / len(counts), 3.4 * len(counts)),
        squeeze=False,
        layout="constrained",
    )
    for axis, threads in zip(axes[:, 0], counts, strict=True):
        rows = [c for c in kept if c.threads == threads]
        peers = list(dict.fromkeys(p for c in rows for p in c.timings if p != OURS))
        width = 0.8 / len(peers)
        for k, peer in enumerate(peers):
            places = [x + (k - (len(peers) - 1) / 2) * width for x in range(len(rows))]
            bars = axis.bar(places, [c.ratio(peer) or 0.0 for c in rows], width * 0.95, label=peer, color=COLOURS[k])
            axis.bar_label(bars, fmt="%.2f", fontsize=7)
        axis.axhline(1.0, color="black", linewidth=0.8)
        axis.set_xticks(range(len(rows)), [c.model for c in rows], rotation=20, ha="right")
        axis.set_ylabel("times as fast as the peer")
        axis.set_title(f"{title}, {threads} thread{'s' if threads > 1 else ''}", fontsize=10)
        axis.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
