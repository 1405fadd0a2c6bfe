"""Check that the log-probabilities of a server or an engine can be those of a language model.

Some servers fill in 0 where they compute nothing, or return scores of another kind. Every option would tie, and the run
would end with the score of chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from figeval.errors import ModelError

from .engine.prefix_tree import TokenRequest

MAX_ROUNDING = 0.01  # nats by which the logarithm of a probability near 1 may be above 0 in half precision
FIRST_CONTEXTS = 12  # whose options are looked at together
MIN_TOKENS = 32  # that no model is certain of, one after another


def check_signs(source: str, logprobs: Iterable[float], cure: str) -> None:
    """Raise `ModelError` if a log-probability is above 0 by more than rounding, naming who gave it."""
    if above := next((value for value in logprobs if value > MAX_ROUNDING), None):
        raise ModelError(
            f"{source} gave a log-probability of {above:g}, but that of a probability is at most 0; {cure}"
        )


def check_certainty(source: str, requests: Sequence[TokenRequest], values: Sequence[float], cure: str) -> None:
    """Raise `ModelError` if every option of the first contexts got the log-probability 0, which cannot be."""
    first = first_contexts(requests)
    if not any(values[index] for index in first) and cannot_all_be_certain([requests[index] for index in first]):
        raise ModelError(f"{source} gave the log-probability 0 for every token, as if all options were certain; {cure}")


def first_contexts(requests: Sequence[TokenRequest]) -> list[int]:
    """Return the indexes of the requests that belong to the first contexts."""
    contexts: dict[tuple[int, ...], None] = {}
    for request in requests:
        contexts.setdefault(context_of(request))
        if len(contexts) > FIRST_CONTEXTS:
            break
    leading = set(list(contexts)[:FIRST_CONTEXTS])
    return [index for index, request in enumerate(requests) if context_of(request) in leading]


def context_of(request: TokenRequest) -> tuple[int, ...]:
    """Return the tokens before those that are scored."""
    return tuple(request.ids[: len(request.ids) - request.predicted])


def cannot_all_be_certain(requests: Sequence[TokenRequest]) -> bool:
    """Return whether no model gives all these continuations the log-probability 0.

    Two continuations of a context exclude each other unless one begins the other. A single token may well be certain.
    """
    return sum(request.predicted for request in requests) >= MIN_TOKENS or any(exclusive(requests))


def exclusive(requests: Sequence[TokenRequest]) -> Iterator[bool]:
    """Yield for each request whether an earlier one of the same context has another continuation."""
    longest: dict[tuple[int, ...], tuple[int, ...]] = {}
    for request in requests:
        context, words = context_of(request), tuple(request.ids[-request.predicted :])
        earlier = longest.setdefault(context, words)
        length = min(len(earlier), len(words))
        yield earlier[:length] != words[:length]
        longest[context] = max(earlier, words, key=len)
