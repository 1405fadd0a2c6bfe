"""Check of models against their contract (`check_model`)."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, is_dataclass, replace
from functools import partial
from typing import Any, SupportsFloat, cast, get_args

from figeval.models.capabilities import ask, capabilities, capability_of
from figeval.models.model import Model
from figeval.task_types.choice import ChoiceExample
from figeval.task_types.pairs import PairExample
from figeval.testing.calls import asserting
from figeval.types import (
    Cloze,
    Continuation,
    Example,
    Finish,
    Inputs,
    Message,
    PairLabel,
    Prompt,
    Reply,
    Request,
    ScoredSpan,
    SpanQuery,
    Text,
    TextPair,
)

Problem = Callable[[Any, Any], str]
LONG_TEXT = "The crow sang for the fox and lost the cheese that it held in its beak. " * 250  # some 4,000 tokens


@dataclass(frozen=True)
class CapabilityCheck:
    """Requests that check one capability of a model, and the conditions for its answers.

    `problem(request, answer)` returns a few words on what is wrong with an answer, or an empty string. `requests` has
    at least two different requests. `long` is a request that few models read in full: they may truncate it, but must
    answer.
    """

    capability: str
    requests: Sequence[Request]
    problem: Problem
    long: Request | None = None


def check_model(  # noqa: PLR0913 - what a test may want otherwise
    model: object,
    *,
    requests: Iterable[Request] = (),
    examples: Iterable[Example] | None = None,
    checks: Iterable[CapabilityCheck] = (),
    tolerance: float = 1e-6,
    repeatable: bool = True,
    empty: bool = False,
) -> None:
    """Check that a model keeps its contract.

    For every capability that the model offers, there must be one answer per request, of the right type and without NaN,
    in the order of the requests and independent of the rest of the batch. Equal requests have equal answers, an input
    that is too long has an answer, and the indexes of truncated inputs exist. The fingerprint exists, is not empty, is
    stable, and is the same for two models that are made in the same way. `describe` returns a value that JSON can
    represent, and `close` may be called twice.

    Args:
        model: The model, or a function or class that makes one when called without arguments. Only with the latter can
            the fingerprints of two models that are made in the same way be compared.
        requests: Requests to send instead of the built-in ones of the same capability, for a model that knows only
            certain labels or words.
        examples: Training examples for a model with `fit`, instead of two built-in ones.
        checks: Checks of capabilities that figeval does not know, or replacements of its own.
        tolerance: Maximum difference of numbers between batches, relative and absolute; neural networks need 1e-4.
        repeatable: Whether a repeated request must have the same answer; False for sampling.
        empty: Whether an empty list must have an empty answer. figeval never sends an empty list; other callers may.

    Raises:
        AssertionError: The check failed; the message names the method and what is wrong with it.
    """
    make = model if inspect.isroutine(model) or isinstance(model, type | partial) else None
    backend = make() if make is not None else model
    _check_identity(backend, make)
    if callable(getattr(backend, "fit", None)):
        Model("", "", backend).fit(list(EXAMPLES if examples is None else examples))
    checks_by_capability = _checks_by_capability(checks, list(requests))
    offered = sorted(asserting(partial(capabilities, backend), type(backend).__name__) - {"dot"})
    name = type(backend).__name__
    assert offered, f"{name} offers no capability: it has no method such as score_pairs or generate"
    for capability in offered:
        assert capability in checks_by_capability, (
            f"{name} offers {capability!r}, for which figeval has no test requests; give a CapabilityCheck "
            f"in checks=[…]"
        )
        requests_of_backend = _Asked(backend, checks_by_capability[capability], tolerance, repeatable)
        requests_of_backend.check()
        if empty:
            requests_of_backend.check_nothing()
    _check_description(backend)
    close = getattr(backend, "close", None)
    if callable(close):
        for _ in range(2):
            asserting(close, f"{name}.close()")


def _checks_by_capability(checks: Iterable[CapabilityCheck], requests: Sequence[Request]) -> dict[str, CapabilityCheck]:
    """Return the check of each capability, with the caller's requests instead of the built-in ones."""
    checks_known = {check.capability: check for check in (*CHECKS, *checks)}
    for name, check in checks_known.items():
        mine = [request for request in requests if capability_of(request) == name]
        if mine:
            checks_known[name] = replace(check, requests=mine, long=None)
    return checks_known


def _check_identity(backend: object, make: Callable[[], object] | None) -> None:
    """Check that the fingerprint exists, is not empty and is stable."""
    name = type(backend).__name__
    opened = Model(name, name, backend)
    asserting(opened.check_fingerprint, name)
    first = asserting(opened.fingerprint, name)
    assert first == asserting(opened.fingerprint, name), f"{name}.fingerprint() changes from call to call"
    if make is not None:
        other = asserting(Model(name, name, make()).fingerprint, name)
        assert first == other, (
            f"two models created alike have different fingerprints ({first!r} and {other!r}): no run of {name} "
            "could be continued"
        )


def _check_description(backend: object) -> None:
    """Check that the description is a mapping that JSON can represent."""
    describe = getattr(backend, "describe", None)
    if not callable(describe):
        return
    name = f"{type(backend).__name__}.describe()"
    description = asserting(describe, name)
    assert isinstance(description, Mapping), f"{name} returned {type(description).__name__}, not a mapping"
    asserting(partial(json.dumps, dict(description)), f"{name} returned a value that JSON cannot represent: json.dumps")


@dataclass(frozen=True)
class _Asked:
    """Check of one capability of a model with requests in several arrangements."""

    backend: object
    against: CapabilityCheck
    tolerance: float
    repeatable: bool

    @property
    def method(self) -> str:
        """Name of the method in messages."""
        return f"{type(self.backend).__name__}.{self.against.capability}"

    def check(self) -> None:
        """Check the answers to requests together, alone, in reverse, repeated, and with one that is too long."""
        requests = list(self.against.requests)
        together = self.answers(requests)
        self.check_answers(requests, together)
        assert not self.different_lengths(together), f"{self.method} returned vectors of different lengths"
        if self.against.long is not None:
            beside = [requests[0], self.against.long]
            self.check_answers(beside, self.answers(beside))
        if self.repeatable:
            self.check_same("the answers change when the same requests are repeated", together, requests)
            self.check_same(
                "the answers are not in the order of the requests, or depend on it", together[::-1], requests[::-1]
            )
            for request, answer in zip(requests, together, strict=True):
                self.check_same("the answer depends on what else is in the batch", [answer], [request])
                self.check_same("equal requests have different answers", [answer, answer], [request, request])

    def answers(self, requests: Sequence[Request]) -> list[object]:
        """Return the answers to a batch, after checking the indexes of truncated inputs."""
        outputs = asserting(partial(ask, self.backend, requests), self.method)
        wrong = [index for index in outputs.truncated if index not in range(len(requests))]
        assert not wrong, f"{self.method}: truncated has {wrong[0]!r}, not an index of its {len(requests)} requests"
        return list(outputs.values)

    def check_answers(self, requests: Sequence[Request], answers: Sequence[object]) -> None:
        """Check that each answer meets the conditions of the capability."""
        for request, answer in zip(requests, answers, strict=True):
            problem = self.against.problem(request, answer)
            assert not problem, f"{self.method} answered {request!r:.200} with {answer!r:.200}: {problem}"

    def different_lengths(self, answers: Sequence[Any]) -> bool:
        """Return whether vectors differ in length."""
        return self.against.capability == Text.capability and len({len(answer) for answer in answers}) > 1

    def check_nothing(self) -> None:
        """Check that an empty list has an empty answer."""
        answer = asserting(partial(getattr(self.backend, self.against.capability), []), f"{self.method}([])")
        values = getattr(answer, "values", answer) if not isinstance(answer, Mapping) else answer
        assert len(values) == 0, f"{self.method}([]) returned {len(values)} answers"

    def check_same(self, circumstance: str, expected: Sequence[object], requests: Sequence[Request]) -> None:
        """Check that the answers to these requests are the expected ones."""
        for request, first, answer in zip(requests, expected, self.answers(requests), strict=True):
            assert self.alike(first, answer), (
                f"{self.method}: {circumstance}; {request!r:.200} had the answer {first!r:.200}, and then "
                f"{answer!r:.200}"
            )

    def alike(self, a: Any, b: Any) -> bool:
        """Return whether two answers are the same, up to the tolerance of numbers."""
        if isinstance(a, Mapping):
            return isinstance(b, Mapping) and list(a) == list(b) and self.alike(list(a.values()), list(b.values()))
        if is_dataclass(a) and not isinstance(a, type):
            return type(a) is type(b) and self.alike(astuple(a), astuple(b))
        if isinstance(a, str | bytes) or a is None or b is None:
            return bool(a == b)
        if hasattr(a, "__len__"):
            return len(a) == len(b) and all(self.alike(x, y) for x, y in zip(a, b, strict=True))
        return math.isclose(a, b, rel_tol=self.tolerance, abs_tol=self.tolerance)


# ---- conditions for the answers of figeval's own capabilities -------------------------------------------------------


def _number(value: object) -> str:
    """Return what is wrong with a value that should be a number other than NaN, or an empty text."""
    if isinstance(value, str | bytes | bool) or not isinstance(value, SupportsFloat):
        return f"{type(value).__name__} is not a number"
    return "NaN, which counts as a broken model" if math.isnan(float(value)) else ""


def _finite(value: object) -> str:
    return _number(value) or ("" if math.isfinite(float(cast("SupportsFloat", value))) else "the number is not finite")


def _log_probability(value: object) -> str:
    return _number(value) or (
        "a log-probability must be at most 0" if float(cast("SupportsFloat", value)) > 1e-6 else ""
    )


def _vector(_request: Text, answer: Any) -> str:
    if isinstance(answer, str) or not hasattr(answer, "__len__"):
        return "not a vector"
    return next(filter(None, map(_finite, answer)), "") if len(answer) else "the vector is empty"


def _score(_request: TextPair, answer: object) -> str:
    return _finite(answer)


def _words(request: Cloze, answer: Any) -> str:
    if not hasattr(answer, "__len__") or len(answer) != len(request.words):
        return f"not {len(request.words)} numbers, one for each of its words"
    return next(filter(None, map(_log_probability, answer)), "")


def _probabilities(request: PairLabel, answer: Any) -> str:
    if not isinstance(answer, Mapping) or set(answer) != set(request.labels):
        return f"not a mapping of the labels {', '.join(request.labels)} to probabilities"
    values = [one for value in answer.values() for one in (value if isinstance(value, tuple | list) else [value])]
    wrong = next(filter(None, map(_number, values)), "")
    if wrong or any(not -1e-6 <= float(value) <= 1 + 1e-6 for value in values):
        return wrong or "a probability is outside [0, 1]"
    total = math.fsum(map(float, values))
    return "" if math.isclose(total, 1, abs_tol=1e-3) else f"the probabilities sum to {total:.4g}, not 1"


def _spans(request: SpanQuery, answer: Any) -> str:
    if isinstance(answer, str) or not hasattr(answer, "__len__"):
        return "not a list of figeval.ScoredSpan"
    for span in answer:
        if not isinstance(span, ScoredSpan):
            return f"{type(span).__name__} is not a figeval.ScoredSpan"
        if not 0 <= span.span.start <= span.span.end <= len(request.text):
            return "a span is outside the text"
    scores = [span.score for span in answer]
    wrong = next(filter(None, map(_number, scores)), "")
    return wrong or ("" if scores == sorted(scores, reverse=True) else "the best span is not the first")


def _written(_request: object, answer: object) -> str:
    if isinstance(answer, Reply):
        return "" if answer.finish in get_args(Finish) else f"finish must be one of {', '.join(get_args(Finish))}"
    return "" if isinstance(answer, str) else "not a figeval.Reply or str"


def _prompts(*questions: str) -> tuple[Prompt, ...]:
    return tuple(Prompt((Message("user", question),), max_new_tokens=8) for question in questions)


SLOW = ("She is as fast as a snail.", "She is slow.")
LIGHT = ("It is as light as a feather.", "It weighs next to nothing.")
CALM = ("Still waters run deep.", "A quiet person may have much to say.")
LABELS = ("entailment", "non-entailment")
CHECKS = (
    CapabilityCheck("embed", (Text(SLOW[0]), Text(LIGHT[0]), Text("Crow")), _vector, Text(LONG_TEXT)),
    CapabilityCheck(
        "score_pairs",
        (TextPair(*SLOW), TextPair(*LIGHT), TextPair("Crow", "crow")),
        _score,
        TextPair(LONG_TEXT, LONG_TEXT),
    ),
    CapabilityCheck(
        "label_pairs",
        (PairLabel(*SLOW, LABELS), PairLabel(*LIGHT, LABELS), PairLabel(*CALM, LABELS)),
        _probabilities,
        PairLabel(LONG_TEXT, SLOW[1], LABELS),
    ),
    CapabilityCheck(
        "loglikelihood",
        (Continuation(SLOW[0], " She is slow."), Continuation("It is", " light"), Continuation(CALM[0], " Quiet")),
        lambda _, answer: _log_probability(answer),
        Continuation(LONG_TEXT, " The end."),
    ),
    CapabilityCheck(
        "fill",
        (Cloze("She is as fast as a snail? ", ", she is slow.", ("Yes", "No")), Cloze("It is ", ".", ("light", "old"))),
        _words,
        Cloze(LONG_TEXT, " she is slow.", ("Yes", "No")),
    ),
    CapabilityCheck(
        "find_spans",
        (SpanQuery(" ".join(SLOW), "slow", "The snail is slow."), SpanQuery(" ".join(CALM), "quiet", CALM[1])),
        _spans,
        SpanQuery(LONG_TEXT, "the crow", "A crow lost its cheese."),
    ),
    CapabilityCheck(
        "generate", _prompts("What does a crow say?", "Is a snail slow?"), _written, _prompts(LONG_TEXT)[0]
    ),
    CapabilityCheck(
        "write",
        (Inputs((("story", LONG_TEXT[:200]), ("keywords", ("crow", "fox")))), Inputs((("story", SLOW[0]),))),
        _written,
        Inputs((("story", LONG_TEXT),)),
    ),
)
EXAMPLES: tuple[Example, ...] = (
    ChoiceExample(id="1", query=SLOW[0], options=(SLOW[1], LIGHT[1]), gold=0),
    PairExample(id="2", left=CALM[0], right=CALM[1], label=LABELS[0]),
)
