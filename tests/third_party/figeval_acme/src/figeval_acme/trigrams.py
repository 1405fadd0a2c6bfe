"""A model: any class whose methods are named after what it can do; here one of eight, `score_pairs`.

`figeval.ScoresPairs` is the same for a type checker.
"""

from collections.abc import Sequence

from figeval import TextPair


class Trigrams:
    """Closeness of two texts as the Dice coefficient of their sets of character trigrams."""

    def __init__(self, model: str, size: int = 3) -> None:
        """`model` is what stands behind the colon of `--model acme_trigrams:…`, `size` comes from `--model_args`."""
        self.size = size

    def score_pairs(self, requests: Sequence[TextPair]) -> list[float]:
        """One float per `TextPair`, in [0, 1], in the same order."""
        return [self._dice(self._pieces(pair.left), self._pieces(pair.right)) for pair in requests]

    def fingerprint(self) -> str:
        """Changes whenever answers would; runs with another one are not mixed. Without it the model is refused."""
        return f"acme_trigrams/1/{self.size}"

    def _pieces(self, text):
        padded = f" {text.lower()} "
        return {padded[i : i + self.size] for i in range(len(padded) - self.size + 1)}

    @staticmethod
    def _dice(left, right):
        return 2 * len(left & right) / (len(left) + len(right)) if left and right else 0.0
