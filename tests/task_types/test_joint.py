"""A ranking route and a span route as one: rounds, what is not asked, and which routes a model is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from figeval import (
    CapabilityError,
    Continuation,
    Harness,
    JointExample,
    Prediction,
    PromptContext,
    Reply,
    Route,
    ScoredSpan,
    Span,
    SpanExample,
    SpanQuery,
    hookimpl,
    plugins,
)
from figeval.models.batching import BatchScheduler
from figeval.task_types.joint import Joint
from figeval.task_types.routes import choose, covered
from figeval.testing import harness
from tests.fakes import FakeEncoder, FakeGenerator, FakePairScorer

TEXT = "the cat sat on the mat"
PARTS = tuple(
    SpanExample(id=f"1S{n}", text=TEXT, given=quotation, known="cats sit", gold=Span(0, 3), weight=0.5)
    for n, quotation in enumerate(("cats", "sit"), start=1)
)
EXAMPLE = JointExample(
    id="1",
    query=TEXT,
    candidates=("dogs run", "the cat"),
    relevant=frozenset({1}),
    background=("the mat",),
    parts=PARTS,
)
CONTEXT = PromptContext(lambda block, example, **extra: f"{block} {getattr(example, 'given', '')}")


@dataclass
class Finder(FakePairScorer):
    """Ranks by shared words, and points at the first characters."""

    spans: Callable[[SpanQuery], list[ScoredSpan]] = lambda query: [ScoredSpan(Span(0, len(query.given)), -1.0)]

    def find_spans(self, requests: Sequence[SpanQuery]) -> list[list[ScoredSpan]]:
        self.note(requests)
        return [self.spans(request) for request in requests]


class Writing(FakeGenerator):
    """Ranks by likelihoods that are all alike, and writes."""

    def loglikelihood(self, requests: Sequence[Continuation]) -> list[float]:
        return [-1.0 for _ in requests]


def routes() -> list[Route]:
    return harness().routes


def way(name: str, *needs: str) -> Route:
    return choose("joint", frozenset(needs), routes(), name)


def answer(route: Route, backend: Any, example: JointExample = EXAMPLE) -> Prediction:
    ((_, prediction),) = BatchScheduler(backend, lambda joint_example: route.begin(joint_example, CONTEXT)).predictions(
        [example]
    )
    return prediction


def test_at_once_asks_everything_in_one_round() -> None:
    backend = Finder()
    prediction = answer(way("at_once", "score_pairs", "find_spans"), backend)
    assert (prediction.value, prediction.scores) == (1, (0.0, 2.0, 2.0))
    assert [(part.example_id, part.value) for part in prediction.parts] == [("1S1", Span(0, 4)), ("1S2", Span(0, 3))]
    assert [len(batch) for batch in backend.batches] == [3, 2]


def test_in_turn_asks_for_spans_only_where_the_candidate_may_be_right() -> None:
    route = way("in_turn", "score_pairs", "find_spans")
    right, wrong, tied = (
        Finder(),
        Finder(function=lambda _, right: float("dogs" in right)),
        Finder(function=lambda *_: 0),
    )
    assert len(answer(route, right).parts) == 2
    assert answer(route, wrong).parts == ()
    assert [len(batch) for batch in wrong.batches] == [3]
    assert (answer(route, tied).tied, len(answer(route, tied).parts)) == (2, 2)


def test_a_candidate_of_the_background_does_not_stand_in_the_way() -> None:
    backend = Finder(function=lambda _, right: {"dogs run": 0.0, "the cat": 1.0, "the mat": 2.0}[right])
    assert len(answer(way("in_turn", "score_pairs", "find_spans"), backend).parts) == 2


def test_a_broken_ranker_is_not_asked_for_spans_in_turn() -> None:
    backend = Finder(function=lambda *_: float("nan"))
    prediction = answer(way("in_turn", "score_pairs", "find_spans"), backend)
    assert (prediction.status, prediction.parts) == ("nan", ())
    prediction = answer(way("at_once", "score_pairs", "find_spans"), backend)
    assert (prediction.status, len(prediction.parts)) == ("nan", 2)


def test_a_span_that_was_not_found_leaves_the_rest() -> None:
    backend = Finder(spans=lambda query: [] if query.given == "sit" else [ScoredSpan(Span(0, 3), 0.0)])
    prediction = answer(way("at_once", "score_pairs", "find_spans"), backend)
    assert prediction.status == "ok"
    assert [part.status for part in prediction.parts] == ["ok", "empty"]


def test_a_model_without_a_head_finds_spans_by_windows() -> None:
    vectors = FakeEncoder(function=lambda text: (1.0, float("cat" in text), float("mat" in text)))
    prediction = answer(way("at_once", "embed"), vectors)
    assert (prediction.value, len(prediction.parts)) == (1, 2)
    assert len(vectors.batches) == 1


def test_an_error_in_a_part_is_an_error_of_the_whole() -> None:
    silent = Writing(function=lambda _: Reply(text="", finish="error", error="no answer"))
    prediction = answer(way("at_once", "loglikelihood", "generate"), silent)
    parts = {part.status for part in prediction.parts}
    assert (prediction.status, prediction.value, prediction.error, parts) == ("error", None, "no answer", {"error"})


def test_solved_examples_of_a_part_are_parts() -> None:
    solved = JointExample(**{**vars_of(EXAMPLE), "id": "2"})
    prompt_context = PromptContext(CONTEXT.block, shots=lambda _: [solved], few_shot_answer=Joint().few_shot_answer)
    backend = Writing(function=lambda _: "none")
    route = way("at_once", "loglikelihood", "generate")
    list(
        BatchScheduler(backend, lambda joint_example: route.begin(joint_example, prompt_context)).predictions([EXAMPLE])
    )
    turns = [[message.content for message in prompt.messages] for prompt in backend.asked]
    assert [turn[-1] for turn in turns] == ["json cats", "json sit"]
    assert [turn[0] for turn in turns] == ["json cats", "json cats"], "the first part of the solved example"


def vars_of(example: JointExample) -> dict[str, Any]:
    return {name: getattr(example, name) for name in ("query", "candidates", "relevant", "background", "parts")}


# ---- which routes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needs", "parts"),
    [
        ({"embed", "dot", "find_spans"}, ("by_dot", "by_head")),
        ({"embed", "find_spans", "score_pairs"}, ("by_cosine", "by_head")),
        ({"embed"}, ("by_cosine", "by_window_cosine")),
        ({"score_pairs"}, ("by_pair_score", "by_window_score")),
        ({"loglikelihood", "generate"}, ("by_loglikelihood", "by_json")),
    ],
)
def test_each_model_is_given_its_first_routes(needs: set[str], parts: tuple[str, str]) -> None:
    route = choose("joint", frozenset(needs), routes())
    assert (route.name, tuple(part.name for part in route.parts)) == ("at_once", parts)
    assert route.needs == frozenset().union(*(part.needs for part in route.parts)) <= needs
    assert route.renders == frozenset().union(*(part.renders for part in route.parts))


@pytest.mark.parametrize("needs", [{"find_spans"}, {"loglikelihood"}, {"generate"}, set()])
def test_one_half_is_not_enough(needs: set[str]) -> None:
    message = "not enough for a joint task: at_once needs a ranking route and a spans route; in_turn needs"
    with pytest.raises(CapabilityError, match=message):
        choose("joint", frozenset(needs), routes())


def test_a_route_whose_parts_are_not_known_cannot_begin() -> None:
    route = next(route for route in routes() if route.name == "at_once")
    assert route.requirements == ("a ranking route", "a spans route")
    with pytest.raises(CapabilityError, match="combines a ranking and a spans route; choose a --model"):
        route.begin(EXAMPLE, CONTEXT)


def test_plugins_put_routes_together_as_the_core_does() -> None:
    def twice(example: Any, context: PromptContext, first: Route, second: Route) -> Any:
        yield [first.name, second.name]

    class Plugin:
        @hookimpl
        def register_routes(self, register: Any) -> None:
            needs = frozenset({"embed"})
            register("choice", Route(name="twice", start=twice, needs=needs, of=("pairs", "spans")))

    manager = plugins.load(modules=())
    manager.load("p", "test", Plugin)
    all_routes = Harness(manager).routes
    plugin_route = next(route for route in all_routes if route.name == "twice")
    is_covered = covered(plugin_route, frozenset({"embed", "fill"}), all_routes)
    assert is_covered is not None
    assert next(is_covered.begin(EXAMPLE, CONTEXT)) == ["by_cloze", "by_window_cosine"]
    assert covered(plugin_route, frozenset({"fill", "find_spans"}), all_routes) is None
