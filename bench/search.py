"""Compare exact nearest-neighbour search, as `--augment` and `--fewshot_sampler nearest` do it, with indexes of faiss.

    python -m bench.search [--most 6] [--built 5] [--queries 64] [--store]        (needs faiss-cpu)

Per decade of vectors from 10^4 to 10^MOST, 384 dimensions as those of MiniLM, all sides with one thread in one process:
seconds to build, milliseconds per query for the ten best, and the share of the ten best that are found (recall). The
vectors are drawn around 1,000 centres, which suits the inverted file of faiss. Approximate indexes are left out beyond
10^BUILT, since they take many minutes to build.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from figeval.runs.retrieval.neighbours import cosines_by_chunks, nearest_first

DIMENSIONS = 384
BEST = 10


def vectors(n: int, seed: int) -> Any:
    """Return n unit vectors around 1,000 centres, shape (n, d), float32."""
    centres = np.random.default_rng(0).standard_normal((1000, DIMENSIONS), dtype=np.float32)
    draw = np.random.default_rng(seed)
    points = draw.standard_normal((n, DIMENSIONS), dtype=np.float32)
    points += centres[draw.integers(len(centres), size=n)]
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def exact(pool: Any, queries: Any) -> list[list[int]]:
    """Return the places of the ten best of the pool for each query, as figeval finds them."""
    best = []
    for similarities in cosines_by_chunks(queries, pool):
        for row in similarities:
            ranking = nearest_first(row)
            best.append([next(ranking) for _ in range(BEST)])
    return best


def builders(pool: Any, *, approximate: bool) -> dict[str, Callable[[], Any]]:
    """Return functions that build the indexes of faiss over the pool, by name."""
    import faiss

    faiss.omp_set_num_threads(1)

    def flat() -> Any:
        index = faiss.IndexFlatIP(DIMENSIONS)
        index.add(pool)
        return index

    def inverted() -> Any:
        cells = int(4 * len(pool) ** 0.5)
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(DIMENSIONS), DIMENSIONS, cells, faiss.METRIC_INNER_PRODUCT)
        index.cp.niter = 10
        index.train(pool[: 40 * cells])
        index.add(pool)
        index.nprobe = 16
        return index

    def graph() -> Any:
        index = faiss.IndexHNSWFlat(DIMENSIONS, 32, faiss.METRIC_INNER_PRODUCT)
        index.add(pool)
        return index

    return {"faiss Flat": flat} | ({"faiss IVF": inverted, "faiss HNSW": graph} if approximate else {})


def compare(n: int, query_count: int, *, approximate: bool) -> dict[str, dict[str, float]]:
    """Return build seconds, milliseconds per query and recall of every side over n vectors."""
    pool, queries = vectors(n, 1), vectors(query_count, 2)
    began = time.perf_counter()
    right = exact(pool, queries)
    sides = {"exact": {"build": 0.0, "query_ms": (time.perf_counter() - began) / query_count * 1e3, "recall": 1.0}}
    for name, build in builders(pool, approximate=approximate).items():
        began = time.perf_counter()
        index = build()
        built = time.perf_counter()
        _, neighbours = index.search(queries, BEST)
        searched = time.perf_counter()
        hits = sum(
            len(set(expected) & set(retrieved)) for expected, retrieved in zip(right, neighbours.tolist(), strict=True)
        )
        sides[name] = {
            "build": built - began,
            "query_ms": (searched - built) / query_count * 1e3,
            "recall": hits / (BEST * query_count),
        }
        del index
    return {name: {key: round(value, 4) for key, value in side.items()} for name, side in sides.items()}


def main() -> int:
    """Print the table, and store it with --store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=6, help="largest decade (default: 6)")
    parser.add_argument("--built", type=int, default=5, help="largest decade of approximate indexes (default: 5)")
    parser.add_argument("--queries", type=int, default=64)
    parser.add_argument("--store", action="store_true", help="write results/measured/bench/search.json")
    options = parser.parse_args()
    figures = {}
    for decade in range(4, options.most + 1):
        figures[f"10^{decade}"] = sides = compare(10**decade, options.queries, approximate=decade <= options.built)
        for name, side in sides.items():
            print(
                f"10^{decade}  {name:10}  build {side['build']:7.1f} s  query {side['query_ms']:8.2f} ms  "
                f"recall {side['recall']:.3f}",
                flush=True,
            )
    if options.store:
        from bench.store import store

        print(store("search", figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
