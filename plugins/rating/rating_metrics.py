"""Metrics of ratings: three correlations with the grades, and distances between answers and grades on the scale.

A correlation depends on all rows, and its interval on its variation over other clusters of rows. It is N / √(V_x V_y)
of three functionals of the sample:

* Pearson's: covariance and variances of ratings and grades;
* Spearman's: the same of their mid-ranks;
* Kendall's τ-b: the means over all pairs of rows of sgn(x_i − x_j) sgn(y_i − y_j), sgn²(x_i − x_j), sgn²(y_i − y_j).

The ranks of a row, and the number of pairs that it is ordered in, change with the rows that a resample draws. So the
features of a row are not its own terms alone, but its terms plus its influence on those of all others: h_i = T + IF_i,
where T is the functional on the sample and IF_i the empirical influence function (Serfling 1980, chapters 5 and 6;
Croux and Dehon 2010 derive those of Spearman's and Kendall's correlations). Since Σ IF_i = 0, the sums over all rows
give exactly scipy's correlation, and sums over resampled clusters that of the resample up to terms of the order 1/n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from figeval.metrics import PerLabel, Statistic, answered, collective, mean_of, tied_answers
from figeval.types import WITHOUT_REPLY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from figeval.types import Prediction

    from .rating import RatingExample

    Floats: TypeAlias = NDArray[np.float64]

CELLS = 4_000_000  # entries of one block of a matrix of pairs of rows: 32 MB
UNDEFINED = "fewer than two different ratings or grades"


# ---- answers on the scale --------------------------------------------------------------------------------------------


def absolute_error(example: RatingExample, prediction: Prediction) -> float | None:
    """Return the distance of the answer from the grade in units of the scale; the mean for tied answers."""
    return _over_answers(example, prediction, lambda distance: distance)


def _within_the_scale(labels: tuple[str, ...]) -> Statistic:
    """Return the mean absolute error, which is at most the width of the scale."""
    from .rating import points_of

    points = points_of(labels)
    return mean_of(absolute_error, bounds=(0.0, points[-1] - points[0]))


MAE = PerLabel(_within_the_scale)


def within_one(example: RatingExample, prediction: Prediction) -> float | None:
    """Return 1 if the answer is at most one unit of the scale from the grade, else 0; the mean for tied answers."""
    return _over_answers(example, prediction, lambda distance: float(distance <= 1))


def parse_rate(_example: RatingExample, prediction: Prediction) -> float | None:
    """Return 1 if the reply gave a point of the scale, else 0; None if there was no reply."""
    return None if prediction.status in WITHOUT_REPLY else float(answered(prediction))


def _over_answers(example: RatingExample, prediction: Prediction, function: Callable[[float], float]) -> float | None:
    """Return the mean of a function of the distance over tied answers; None without a grade or an answer."""
    grade = example.grade
    if grade is None or not answered(prediction) or prediction.value is None:
        return None
    answers = [float(answer) for answer in tied_answers(prediction)]
    return math.fsum(function(abs(answer - grade)) for answer in answers) / len(answers)


# ---- correlations ----------------------------------------------------------------------------------------------------


def correlations(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], _settings: Mapping[str, Any]
) -> dict[str, list[Sequence[float] | None]]:
    """Return the features of each row per correlation.

    They are None for a row without a rating or a grade, and for all rows if ratings or grades do not vary, because
    their correlation is then unknown and not 0.
    """
    import numpy as np

    rated = [index for index, row in enumerate(rows) if row["gold"] is not None and _rating(row) is not None]
    x = np.array([_rating(rows[index]) for index in rated], dtype=np.float64)
    y = np.array([rows[index]["gold"] for index in rated], dtype=np.float64)
    features_by_name: dict[str, list[Sequence[float] | None]] = {name: [None] * len(rows) for name in names}
    if len(rated) and np.ptp(x) > 0 and np.ptp(y) > 0:
        for name in names:
            for index, features in zip(rated, FEATURES[name](x, y).tolist(), strict=True):
                features_by_name[name][index] = features
    return features_by_name


def _rating(row: Mapping[str, Any]) -> float | None:
    details = row.get("details") or {}
    return details.get("rating") if row["status"] == "ok" else None


def pearson_features(x: Floats, y: Floats) -> Floats:
    """Return terms and influences of covariance and variances; x and y have shape (n,), the result (n, 3)."""
    import numpy as np

    u, v = ((values - values.mean()) / values.std() for values in (x, y))
    return np.stack((u * v, u * u, v * v), axis=1)  # the influence of a row on the means is of a lower order


def spearman_features(x: Floats, y: Floats) -> Floats:
    """Return terms and influences of covariance and variances of the mid-ranks, as shares of n minus 1/2.

    With u = H(x) − 1/2 for the mid-distribution function H of the ratings and v likewise for the grades, the mean of u
    v changes with a row (x_i, y_i) by u_i v_i, by the ranks of others that x_i moves, −½ mean_j sgn(x_i − x_j) v_j, and
    by those that y_i moves.
    """
    import numpy as np

    constant = np.ones((len(x), 1))
    u, v = (sign_means(values, constant)[:, 0] / 2 for values in (x, y))
    of_x = -sign_means(x, np.stack((v, u), axis=1)) / 2
    of_y = -sign_means(y, np.stack((u, v), axis=1)) / 2
    covariance, own_x, own_y = np.mean(u * v), np.mean(u * u), np.mean(v * v)
    return np.stack(
        (
            u * v + of_x[:, 0] + of_y[:, 0] - 2 * covariance,
            u * u + 2 * of_x[:, 1] - 2 * own_x,
            v * v + 2 * of_y[:, 1] - 2 * own_y,
        ),
        axis=1,
    )


def kendall_features(x: Floats, y: Floats) -> Floats:
    """Return terms and influences of the three means over pairs of rows.

    They are twice the mean over the pairs of a row, minus that over all pairs (Hoeffding's projection).
    """
    import numpy as np

    means = np.empty((len(x), 3))
    for rows in _blocks(len(x)):
        a, b = (np.sign(values[rows, None] - values[None, :]) for values in (x, y))
        means[rows] = np.stack(((a * b).mean(axis=1), (a * a).mean(axis=1), (b * b).mean(axis=1)), axis=1)
    projected: Floats = 2 * means - means.mean(axis=0)
    return projected


def sign_means(values: Floats, columns: Floats) -> Floats:
    """Return mean_j sgn(values_i − values_j) · columns_j; shapes (n,) and (n, k), result (n, k)."""
    import numpy as np

    blocks = [np.sign(values[rows, None] - values[None, :]) @ columns for rows in _blocks(len(values))]
    return np.concatenate(blocks) / len(values)


def _blocks(n: int) -> list[slice]:
    """Return slices of rows whose matrices of pairs have at most about `CELLS` entries."""
    step = max(1, CELLS // n)
    return [slice(start, start + step) for start in range(0, n, step)]


def correlation(sums: Floats) -> Floats:
    """Return N / √(V_x V_y) of sums (…, 3), clipped to [−1, 1]; NaN if a variance is not above 0."""
    import numpy as np

    above, x, y = sums[..., 0], sums[..., 1], sums[..., 2]
    square = np.where((x > 0) & (y > 0), x * y, np.nan)
    return np.clip(above / np.sqrt(square), -1.0, 1.0)


FEATURES: dict[str, Callable[[Any, Any], Any]] = {
    "pearson": pearson_features,
    "spearman": spearman_features,
    "kendall": kendall_features,
}


CORRELATION = collective(correlations, combine=correlation, absent=UNDEFINED, pooled=True, size_invariant=True)
PEARSON = SPEARMAN = KENDALL = CORRELATION  # distinguished by name; one call computes all three
