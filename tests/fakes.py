"""Re-export of `figeval.testing.fakes`, the fake models that plugin authors can use too."""

from figeval.testing.fakes import (
    Chatting,
    Closeness,
    Counting,
    Gaps,
    Labels,
    Likelihood,
    Vectors,
    Writer,
    in_rounds,
)

__all__ = ["Chatting", "Closeness", "Counting", "Gaps", "Labels", "Likelihood", "Vectors", "Writer", "in_rounds"]
