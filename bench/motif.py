"""Compare the four distances of similar motifs with a loop over scipy's: their speed and the nearest neighbours.

    python bench/motif.py [--full] [--rows R] [--random]

The data are 1000 distributions over ePiC's 250 proverbs: the softmax of MiniLM's cosines between the narratives of the
seen test split and the proverbs, at temperature 1 (almost uniform), and at a temperature that gives a mean top
probability of .96 (as of a fine-tuned model; most values underflow to 0). Without that data, or with `--random`, the
logits are random normal numbers.

`figeval.metrics.neighbours` is compared with a plain loop, `for i: for j > i: distance(p[i], p[j])`, over scipy's four
functions. The loop covers all 499,500 pairs with `--full`; otherwise those of R random rows, and its time is
extrapolated. Both are timed in CPU seconds (`time.process_time`) in this process on one thread; figeval's time is the
median of several passes. Pass criterion: at most a fiftieth of the loop's time, and for every row the nearest neighbour
that the loop finds, or one whose distance according to scipy differs only by rounding.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

BAR = 50.0
PASSES = 7
SHARP = 0.96  # mean top probability of the sharpened distributions
ROUNDING = 1e-7  # JSD is a root: an error of 1e-15 under it is 3e-8 of a distance near 0


def minilm_scores() -> Any:
    """Return the cosines of narratives and proverbs, shape (1000, 250)."""
    import torch

    from figeval.builtin.plugins.encoders.encoder import minilm
    from figeval.runs import Harness
    from figeval.task_types.routes import cosines
    from figeval.types import Text

    torch.set_num_threads(1)
    harness = Harness()
    (task,) = harness.catalogue.expand(["epic_retrieval_seen"])
    examples = list(harness.examples(task))
    backend = minilm(device="cpu")
    proverbs = backend.embed([Text(text) for text in examples[0].candidates]).values
    narratives = backend.embed([Text(example.query) for example in examples]).values
    return [cosines(vector, proverbs) for vector in narratives]


def random_scores() -> Any:
    """Return seeded normal logits of the same shape and about the same spread."""
    import numpy as np

    return np.random.default_rng(20220522).normal(scale=0.12, size=(1000, 250))


def sharp_temperature(scores: Any) -> float:
    """Return the temperature at which the mean top probability is `SHARP`, by bisection of its logarithm."""
    import numpy as np

    from figeval.metrics.neighbours import profiles

    cold, warm = math.log(1e-5), 0.0
    for _ in range(50):
        middle = (cold + warm) / 2
        peak = np.exp(profiles(scores, math.exp(middle)).max(axis=1)).mean()
        cold, warm = (middle, warm) if peak > SHARP else (cold, middle)
    return math.exp(warm)


def scipys() -> dict[str, Callable[[Any, Any], float]]:
    """Return scipy's functions for the plain loop, by figeval's names."""
    from scipy.spatial import distance

    return {
        "cosine": distance.cosine,
        "jsd": distance.jensenshannon,
        "l2": distance.euclidean,
        "l1": distance.cityblock,
    }


def time_call(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds and the result of a call."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def loop(points: Any, rows: list[int], function: Callable[[Any, Any], float]) -> Any:
    """Return the distances of some rows from all rows, shape (n, n), with NaN elsewhere.

    If all rows are given, each pair is computed once.
    """
    import numpy as np

    n = len(points)
    square = np.full((n, n), np.nan)
    with np.errstate(invalid="ignore"):  # the root of a negative sum, see `compare_neighbours`
        for i in rows:
            for j in range(i + 1 if len(rows) == n else 0, n):
                if i != j:
                    square[i, j] = square[j, i] = function(points[i], points[j])
    return square


def one_pass(points: Any) -> dict[str, Any]:
    """Return figeval's four distances of all pairs."""
    from figeval.metrics.neighbours import DISTANCES

    return {name: distance(points) for name, distance in DISTANCES.items()}


def compare_neighbours(ours: Any, theirs: Any, rows: list[int]) -> tuple[int, float, int]:
    """Compare figeval's nearest neighbours with scipy's.

    The first of equal distances is the nearest, as with the strict comparison of the authors' code. scipy's NaN, the
    root of a sum that rounding made negative, is read as 0.

    Returns:
        Number of rows with another nearest neighbour, its largest excess over scipy's smallest distance, and number of
        rows for which scipy gives NaN.
    """
    import numpy as np

    other, excess, undefined = 0, 0.0, 0
    for i in rows:
        our_distances, scipy_distances = np.delete(ours[i], i), np.delete(theirs[i], i)
        undefined += bool(np.isnan(scipy_distances).any())
        scipy_distances = np.nan_to_num(scipy_distances, nan=0.0)
        other += bool(our_distances.argmin() != scipy_distances.argmin())
        excess = max(excess, float(scipy_distances[our_distances.argmin()] - scipy_distances.min()))
    return other, excess, undefined


def compare(points: Any, rows: list[int]) -> bool:
    """Print the figures of one set of distributions and return whether the bar is met."""
    from figeval.metrics.neighbours import DISTANCES

    # A drawn row is compared with all others; if all rows are used, each is compared with those after it.
    share = 1.0 if len(rows) == len(points) else len(points) / 2 / len(rows)
    ours, total, same = one_pass(points), 0.0, True
    for name, function in scipys().items():
        spent, theirs = time_call(partial(loop, points, rows, function))
        alone = median(time_call(partial(DISTANCES[name], points))[0] for _ in range(PASSES))
        other, excess, undefined = compare_neighbours(ours[name], theirs, rows)
        total += spent * share
        same &= excess <= ROUNDING
        print(f"  {name:6s} {spent * share:6.2f} s  {alone:.4f} s  {spent * share / alone:4.0f} times  ", end="")
        print(f"{other} of {len(rows)} rows: another neighbour, by up to {excess:.1e}; {undefined}: NaN of scipy's")
    seconds = median(time_call(partial(one_pass, points))[0] for _ in range(PASSES))
    print(f"  all    {total:6.2f} s  {seconds:.4f} s  {total / seconds:4.0f} times  the bar is {BAR:.0f}", flush=True)
    return same and total / seconds >= BAR


def scores_of(use_random: bool) -> tuple[str, Any]:
    """Return a description and the scores: MiniLM's if ePiC is available, else random ones."""
    from figeval.errors import FigevalError

    if use_random:
        return "random logits", random_scores()
    try:
        return "MiniLM on ePiC", minilm_scores()
    except FigevalError as error:
        print(f"no ePiC: {error}", file=sys.stderr)
        return "random logits", random_scores()


def main() -> int:
    """Print the figures and return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="let the loop run over all pairs")
    parser.add_argument("--rows", type=int, default=50, help="without --full, the number of random rows for the loop")
    parser.add_argument("--random", action="store_true", help="random logits in place of MiniLM's cosines")
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    import numpy as np
    import scipy

    from figeval.metrics.neighbours import profiles

    source, scores = scores_of(options.random)
    n = len(scores)
    rows = list(range(n)) if options.full else random.Random(0).sample(range(n), options.rows)
    print(f"{source}; numpy {np.__version__}, scipy {scipy.__version__}, 1 thread; CPU seconds of loop and figeval")
    bars = []
    for temperature in (1.0, sharp_temperature(scores)):
        points = np.exp(profiles(scores, temperature))
        pairs = n * (n - 1) // 2 if options.full else len(rows) * (n - 1)
        print(f"temperature {temperature:.6g}, mean top probability {points.max(axis=1).mean():.3f}, {pairs:,} pairs")
        bars.append(compare(points, rows))
    return 0 if all(bars) else 1


if __name__ == "__main__":
    sys.exit(main())
