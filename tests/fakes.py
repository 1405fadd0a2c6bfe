"""The fakes that figeval offers to plugin authors, under the name that figeval's own tests have for them."""

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
