"""Areas under the ROC curve for `bench/coverage.py`: positive and negative examples, in clusters and alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from clustered import Row, cell, real, scored, seeded, uneven
from scipy.special import ndtri

from figeval.metrics.discrimination import Judged, auc

KINDS = ("mixed", "one kind each", "paired")
CELLS = 400  # data sets of a cell; each asks figeval itself


def areas() -> Iterator[Row]:
    """Scores are the sum of normal parts of the cluster (.3) and the row (.7), and positive ones lie higher."""
    found = {f"{g} × {m}": np.full(g, m) for g, m in ((20, 12), (50, 10), (250, 4), (400, 1))}
    found |= {name: uneven()[name] for name in ("lognormal 50 (c)", "lognormal 200 (a)")}
    found |= {"impli_idioms_gold_ent": real()["impli_idioms_gold_ent"]}
    for name, sizes in found.items():
        for kind in KINDS:
            for area in (0.5, 0.7, 0.95):
                generator = seeded("auc", name, kind, area)
                ends, values = [], []
                for _ in range(CELLS):
                    score = auc(drawn(generator, sizes, kind, area))
                    if score.value is not None:
                        values.append(score.value)
                        ends.append(
                            (np.nan if score.low is None else score.low, np.nan if score.high is None else score.high)
                        )
                about = cell("auc", name, sizes, kind, p=area, correlation=0.3)
                yield {**about, "rule": "clustered placements", **scored(*np.array(ends).T, float(np.mean(values)))}


def drawn(generator: np.random.Generator, sizes: np.ndarray, kind: str, area: float) -> list[Judged]:
    """One data set; the expected area of independent examples is `area`."""
    index = np.repeat(np.arange(len(sizes)), sizes)
    chance = generator.random(len(sizes))[index] if kind == "one kind each" else generator.random(len(index))
    positive = chance < 0.5
    if kind == "paired":  # as many of one kind as of the other in a cluster, where that can be
        positive = np.concatenate([np.arange(size) % 2 == generator.integers(2) for size in sizes])
    noise = np.sqrt(0.3) * generator.standard_normal(len(sizes))[index] + np.sqrt(0.7) * generator.standard_normal(
        len(index)
    )
    scores = noise + positive * np.sqrt(2) * ndtri(area)
    return [
        Judged(positive=bool(own), score=float(score), cluster=str(cluster))
        for own, score, cluster in zip(positive, scores, index, strict=True)
    ]
