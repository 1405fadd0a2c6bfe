"""A ranking route and a span route as one: rounds, what is not asked, and which routes a model is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from figeval import (
    CapabilityError,
    Continuation,
    JointExample,
    Prediction,
    PromptContext,
    Reply,
    Route,
    RunConfig,
    ScoredSpan,
    Span,
    SpanExample,
    SpanQuery,
    Text,
    hookimpl,
)
from figeval.testing import harness, predict
from tests.fakes import FakeEncoder, FakeGenerator, FakeMaskFiller, FakePairScorer
from tests.finished_runs import execute
from tests.runs.conftest import Models
from tests.typed import choose_route, find_route, task_types

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


def way(name: str, *needs: str) -> Route:
    return choose_route("joint", needs, name)


def answer(route: Route, backend: Any, example: JointExample = EXAMPLE) -> Prediction:
    (prediction,) = predict(route, backend, [example], CONTEXT)
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
    solved = replace(EXAMPLE, id="2")
    answer_of = task_types().get("joint").few_shot_answer
    prompt_context = PromptContext(CONTEXT.block, shots=lambda _: [solved], few_shot_answer=answer_of)
    backend = Writing(function=lambda _: "none")
    route = way("at_once", "loglikelihood", "generate")
    predict(route, backend, [EXAMPLE], prompt_context)
    turns = [[message.content for message in prompt.messages] for prompt in backend.asked]
    assert [turn[-1] for turn in turns] == ["json cats", "json sit"]
    assert [turn[0] for turn in turns] == ["json cats", "json cats"], "the first part of the solved example"


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
    route = choose_route("joint", needs)
    assert (route.name, tuple(part.name for part in route.parts)) == ("at_once", parts)
    assert route.needs == frozenset().union(*(part.needs for part in route.parts)) <= needs
    assert route.renders == frozenset().union(*(part.renders for part in route.parts))


@pytest.mark.parametrize("needs", [{"find_spans"}, {"loglikelihood"}, {"generate"}, set()])
def test_one_half_is_not_enough(needs: set[str]) -> None:
    message = "not enough for a joint task: at_once needs a ranking route and a spans route; in_turn needs"
    with pytest.raises(CapabilityError, match=message):
        choose_route("joint", needs)


def test_a_route_whose_parts_are_not_known_cannot_begin() -> None:
    route = find_route("joint", "at_once")
    assert route.requirements == ("a ranking route", "a spans route")
    with pytest.raises(CapabilityError, match="combines a ranking and a spans route; choose a --model"):
        route.begin(EXAMPLE, CONTEXT)


def test_plugins_put_routes_together_as_the_core_does(tmp_path: Path) -> None:
    def twice(example: Any, context: PromptContext, first: Route, second: Route) -> Any:
        names.append((first.name, second.name))
        yield [Text("x")]
        return Prediction(example_id=example.id, value=0)

    names: list[tuple[str, str]] = []

    class Plugin:
        @hookimpl
        def register_routes(self, register: Any) -> None:
            needs = frozenset({"embed"})
            register("choice", Route(name="twice", start=twice, needs=needs, of=("pairs", "spans")))

    registries = harness("figeval.builtin.tasks.mini", Plugin(), Models(both=FakeEncoder(), filler=FakeMaskFiller()))
    options: dict[str, Any] = {"routes": {"choice": "twice"}, "limit": 1, "baselines": False, "output_path": tmp_path}
    with pytest.raises(CapabilityError, match="twice needs embed and a pairs route and a spans route"):
        execute(RunConfig(tasks=("mini_proverbs",), model="filler", **options), registries)
    execute(RunConfig(tasks=("mini_proverbs",), model="both", **options), registries)
    assert set(names) == {("by_cosine_threshold", "by_window_cosine")}
