"""Routes put to scripted backends: values worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from figeval import (
    CapabilityError,
    ChoiceExample,
    PairExample,
    PluginError,
    Prediction,
    PromptContext,
    RankingExample,
    Route,
    TaskError,
    decide,
    hookimpl,
)
from figeval.testing import harness, predict
from tests.aggregated import score_of
from tests.fakes import FakeClassifier, FakeEncoder, FakeLanguageModel, FakeMaskFiller, FakePairScorer
from tests.typed import choose_route, find_route

LABELS = ("entailment", "non-entailment")
EXAMPLE = ChoiceExample(id="1", query="the cat sat", options=("a dog", "the cat", "cat"), gold=1)
PAIR = PairExample(id="1", left="He kicked the bucket", right="He died", label="entailment")


def render(block, example, **extra):
    texts = {"context": "Q", "unconditional": "A:", "cloze": f"before{extra.get('gap')}after"}
    return texts.get(block, f" {extra.get('option')}")


def context(**settings):
    return PromptContext(render, **{"labels": LABELS, "settings": {"threshold": 0.5}, **settings})


def answer(route, example, backend, prompt_context=None):
    """The answer on a route of the example's task type."""
    task_type = {ChoiceExample: "choice", RankingExample: "ranking", PairExample: "pairs"}[type(example)]
    (prediction,) = predict(find_route(task_type, route), backend, [example], prompt_context or context())
    return prediction


def test_choice_by_pair_score():
    prediction = answer("by_pair_score", EXAMPLE, FakePairScorer())
    assert (prediction.value, prediction.scores, prediction.tied) == (1, (0.0, 2.0, 1.0), 1)


def test_choice_by_loglikelihood_asks_what_the_template_says():
    backend = FakeLanguageModel()
    prediction = answer("by_loglikelihood", EXAMPLE, backend)
    assert [(r.context, r.continuation) for r in backend.asked] == [("Q", " a dog"), ("Q", " the cat"), ("Q", " cat")]
    assert prediction.value == 2  # the shortest continuation


def test_priors_are_asked_for_in_the_same_round_where_a_metric_wants_them():
    backend = FakeLanguageModel(function=lambda context, option: -float(len(context) + len(option)))
    prediction = answer("by_loglikelihood", EXAMPLE, backend, context(metrics=frozenset({"acc", "acc_pmi"})))
    assert len(backend.batches) == 1
    assert [r.context for r in backend.asked] == ["Q", "Q", "Q", "A:", "A:", "A:"]
    assert (prediction.scores, prediction.priors) == ((-7.0, -9.0, -5.0), (-8.0, -10.0, -6.0))
    assert answer("by_loglikelihood", EXAMPLE, FakeLanguageModel()).priors == ()


def test_choice_by_cosine_in_float64():
    vectors = {"the cat sat": (1.0, 0.0), "a dog": (0.0, 1.0), "the cat": (1.0, 1.0), "cat": (-1.0, 0.0)}
    prediction = answer("by_cosine", EXAMPLE, FakeEncoder(function=vectors.__getitem__))
    assert prediction.scores == pytest.approx((0.0, math.sqrt(0.5), -1.0), abs=1e-15)


def test_ranking_chooses_among_candidates_but_scores_background_too():
    example = RankingExample(
        id="1", query="the cat", candidates=("a", "the"), relevant=frozenset({1}), background=("the cat",)
    )
    prediction = answer("by_pair_score", example, FakePairScorer())
    assert prediction.scores == (0.0, 1.0, 2.0)
    assert prediction.value == 1


@pytest.mark.parametrize("bad", [math.nan, float("nan")])
def test_nan_is_a_status_and_not_the_first_option(bad):
    prediction = answer("by_pair_score", EXAMPLE, FakePairScorer(function=lambda left, right: bad))
    assert (prediction.value, prediction.status) == (None, "nan")


def test_a_zero_vector_has_no_angle():
    prediction = answer("by_cosine", EXAMPLE, FakeEncoder(function=lambda text: (0.0, 0.0)))
    assert prediction.status == "nan"


def test_ties_are_counted():
    assert decide("1", [0.0, 1.0, 1.0, -math.inf]).tied == 2
    assert decide("1", [-math.inf, -math.inf]).tied == 2
    assert decide("1", [0.0, 1.0, 2.0], n_options=2).value == 1


def test_pairs_by_head():
    backend = FakeClassifier(function=lambda left, right: {"non-entailment": 0.3, "entailment": 0.7})
    prediction = answer("by_head", PAIR, backend)
    assert (prediction.value, prediction.scores, prediction.labels) == ("entailment", (0.7, 0.3), LABELS)


def test_pairs_by_cloze():
    backend = FakeMaskFiller(function=lambda word, before, after: -1.0)
    answer("by_cloze", PAIR, backend, context(verbalizer={"entailment": ("Yes",), "non-entailment": ("No",)}))
    assert (backend.asked[0].before, backend.asked[0].after, backend.asked[0].words) == (
        "before",
        "after",
        ("Yes", "No"),
    )


def three_way(yes: float, no: float, maybe: float) -> dict[str, Prediction]:
    """What each route makes of the same three probabilities."""
    prompt_context = context(verbalizer={"entailment": ("Yes",), "non-entailment": ("No", "Maybe")})
    logs = {word: math.log(p) if p else -math.inf for word, p in (("Yes", yes), ("No", no), ("Maybe", maybe))}
    head = FakeClassifier(function=lambda left, right: {"non-entailment": (no, maybe), "entailment": (yes,)})
    return {
        "by_head": answer("by_head", PAIR, head, prompt_context),
        "by_cloze": answer("by_cloze", PAIR, FakeMaskFiller(function=lambda word, *_: logs[word] - 7), prompt_context),
        "by_verbalizer": answer(
            "by_verbalizer",
            PAIR,
            FakeLanguageModel(function=lambda _, word: logs[word.strip()] - 7),
            prompt_context,
        ),
    }


@pytest.mark.parametrize(
    ("probabilities", "value", "expected"),
    [
        ((0.4, 0.3, 0.3), "entailment", (1.0, 0.0)),  # though the two others add up to more
        ((0.3, 0.4, 0.3), "non-entailment", (0.0, 1.0)),
        ((0.2, 0.4, 0.4), "non-entailment", (0.0, 1.0)),  # a tie within one label is none
        ((0.4, 0.4, 0.2), "entailment", (1 / 2, 1 / 2)),
        ((1 / 3, 1 / 3, 1 / 3), "entailment", (1 / 3, 2 / 3)),  # of three classes that tie two are one label's
        ((0.5, 0.5, 0.0), "entailment", (1 / 2, 1 / 2)),
    ],
)
def test_every_route_takes_the_most_probable_of_three_classes_and_then_its_label(probabilities, value, expected):
    for name, prediction in three_way(*probabilities).items():
        assert (prediction.value, prediction.labels) == (value, LABELS), name
        assert prediction.scores == pytest.approx((probabilities[0], max(probabilities[1:]))), name
        assert prediction.tied == (2 if 0 < expected[0] < 1 else 1), name
        accuracies = [score_of("acc", "pairs", [(replace(PAIR, label=label), prediction)]) for label in LABELS]
        assert accuracies == pytest.approx(expected), name


def test_words_that_are_all_impossible_tie_and_nan_is_no_answer():
    prompt_context = context(verbalizer={"entailment": ("Yes",), "non-entailment": ("No", "Maybe")})
    nothing = answer("by_verbalizer", PAIR, FakeLanguageModel(function=lambda *_: -math.inf), prompt_context)
    assert (nothing.status, nothing.tied, nothing.tied_labels) == (
        "ok",
        2,
        ("entailment", "non-entailment", "non-entailment"),
    )
    broken = FakeLanguageModel(function=lambda _, word: math.nan if word == " No" else -1.0)
    assert answer("by_verbalizer", PAIR, broken, prompt_context).status == "nan"


def test_a_cloze_without_a_gap_is_a_mistake_of_the_template():
    prompt_context = PromptContext(lambda block, example, **extra: "no gap", labels=LABELS)
    with pytest.raises(TaskError, match="exactly once"):
        answer("by_cloze", PAIR, FakeMaskFiller(), prompt_context)


def test_pairs_by_verbalizer():
    backend = FakeLanguageModel(function=lambda context, word: {" Yes": -1.0, " No": -2.0}[word])
    prompt_context = context(verbalizer={"entailment": ("Yes",), "non-entailment": ("No",)})
    assert answer("by_verbalizer", PAIR, backend, prompt_context).value == "entailment"


@pytest.mark.parametrize(("closeness", "value"), [(0.5, "entailment"), (0.4999, "non-entailment"), (1.0, "entailment")])
def test_the_threshold_itself_is_enough_and_no_tie(closeness, value):
    prediction = answer("by_threshold", PAIR, FakePairScorer(function=lambda left, right: closeness))
    assert (prediction.value, prediction.tied, prediction.scores) == (value, 1, (closeness, 0.5))


def test_pairs_by_cosine_threshold():
    vectors = {PAIR.left: (1.0, 0.0), PAIR.right: (1.0, 1.0)}
    prediction = answer("by_cosine_threshold", PAIR, FakeEncoder(function=vectors.__getitem__))
    assert prediction.value == "entailment"


def test_unknown_closeness_is_no_verdict():
    prediction = answer("by_threshold", PAIR, FakePairScorer(function=lambda left, right: math.nan))
    assert (prediction.value, prediction.status) == (None, "nan")


def test_a_threshold_tells_two_labels_apart():
    prompt_context = context(labels=("a", "b", "c"))
    with pytest.raises(CapabilityError, match="two labels"):
        answer("by_threshold", PAIR, FakePairScorer(), prompt_context)


@pytest.mark.parametrize(
    ("legend", "explanation"),
    [
        ("", "threshold 0.5, mode cosine"),
        ("{labels[0]} from {threshold:.2f} on, else {labels[1]}", "a from 0.50 on, else b"),
    ],
)
def test_a_route_explains_its_settings(legend, explanation):
    settings = {"threshold": 0.5, "mode": "cosine"}
    route = Route(name="r", start="a.module:start", settings=settings, legend=legend)
    assert route.explain({**settings, "of_another": 1}, ("a", "b")) == explanation


@pytest.mark.parametrize("legend", ["{margin}", "{labels[x]}", "{threshold:d}", "{threshold", "{}", "{threshold.x}"])
def test_a_legend_that_cannot_be_filled_in_names_the_route(legend):
    route = Route(name="by_own", start="a.module:start", settings={"threshold": 0.5}, legend=legend)
    with pytest.raises(PluginError, match=r"route 'by_own': the legend .* cannot be filled in"):
        route.check()


def test_a_legend_that_does_not_fit_a_task_costs_no_run():
    """A legend of two labels on a task with one: names and values are told in its place."""
    route = Route(name="by_own", start="a.module:start", settings={"threshold": 0.5}, legend="{labels[1]}")
    assert route.explain({"threshold": 0.5}, ("a",)) == "threshold 0.5"


def test_a_setting_may_not_have_a_name_of_figeval():
    route = Route(name="by_own", start="a.module:start", settings={"seed": 0.5})
    with pytest.raises(PluginError, match="route 'by_own': the setting 'seed' is reserved; rename it"):
        route.check()


def test_the_best_route_that_the_model_covers():
    assert choose_route("choice", {"embed", "loglikelihood"}).name == "by_loglikelihood"
    assert choose_route("pairs", {"embed"}).name == "by_cosine_threshold"
    assert choose_route("choice", {"embed", "loglikelihood"}, "by_cosine").name == "by_cosine"


def test_a_model_that_cannot_answer_is_told_what_would_be_needed():
    with pytest.raises(CapabilityError, match="offers generate, which is not enough for a ranking task: by_dot needs"):
        choose_route("ranking", {"generate"})


def test_an_unknown_route_is_told_near_names():
    with pytest.raises(CapabilityError, match="did you mean 'by_cosine'"):
        choose_route("choice", {"embed"}, "by_cosin")


def test_a_route_may_be_a_function_of_a_plugin():
    def by_guess(example, context):
        yield []

    route = Route(name="by_guess", start=by_guess)
    assert next(route.begin(EXAMPLE, context())) == []


def test_a_second_route_of_the_same_name_is_refused(capsys):
    class Plugin:
        @hookimpl
        def register_routes(self, register):
            def by_cosine(example, context):
                yield []

            register("choice", Route(name="by_cosine", start=by_cosine, needs=frozenset({"embed"})))

    all_routes = harness(Plugin()).routes
    owners = [route.owner for route in all_routes if (route.task_type, route.name) == ("choice", "by_cosine")]
    assert owners == ["figeval.defaults"]
    assert "route 'by_cosine' for choice of Plugin is already registered by figeval.defaults" in capsys.readouterr().err
