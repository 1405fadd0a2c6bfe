"""Two models as one: what it can do, what it says, and parts that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from figeval import ModelError, RankingExample, SpanQuery, Text, TextPair, load
from figeval.testing import capabilities
from tests.finished_runs import finished
from tests.plugins.headed import QA, joint_checkpoint
from tests.plugins.tiny import LINES, Workshop

QUERIES = [SpanQuery(text, "in time", LINES[0]) for text in LINES[:3]]


def test_it_can_do_what_the_ranker_can_and_find_spans(workshop: Workshop, open_model: Any) -> None:
    both = open_model("pipeline", ranker="overlap", spans="last_sentence")
    assert capabilities(both) == {"score_pairs", "find_spans"}
    assert both.score_pairs([TextPair("a b", "b c")]) == [1 / 3]
    folder = str(workshop("bert", QA))
    neural = open_model("pipeline", ranker="minilm", spans=folder, device="cpu", batch_size=4)
    assert capabilities(neural) == {"embed", "find_spans"}
    assert neural.find_spans(QUERIES) == open_model("spans", folder, batch_size=4).find_spans(QUERIES)
    assert {part.backend.setup.settings.batch_size for part in neural.parts.values()} == {4}


def test_a_joint_model_may_rank_while_another_finds_spans(workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    ranker = joint_checkpoint(workshop("bert", "Model"), tmp_path / "joint")
    both = open_model("pipeline", ranker=str(ranker), spans=str(workshop("roberta", QA)))
    assert capabilities(both) == {"embed", "dot", "find_spans"}
    assert both.find_spans(QUERIES) == open_model("spans", workshop("roberta", QA)).find_spans(QUERIES)


def test_parts_may_have_options_of_their_own(workshop: Workshop, open_model: Any) -> None:
    encoder = {"model": f"encoder:{workshop('roberta', 'Model')}", "pooling": "mean"}
    both = open_model("pipeline", ranker=encoder, spans={"model": str(workshop("bert", QA)), "max_span": 1})
    assert both.embed([Text("a")]).values.shape == (1, 16)
    both.find_spans(QUERIES)
    described = json.loads(json.dumps(both.describe()))
    assert (described["ranker"]["pooling"], described["spans"]["max_span"]) == ("mean", 1)
    assert described["parameters"] == described["ranker"]["parameters"] + described["spans"]["parameters"] > 0
    both.close()
    assert not any("network" in vars(part.backend) for part in both.parts.values())


def test_its_fingerprint_changes_with_either_part(workshop: Workshop, open_model: Any) -> None:
    head = str(workshop("bert", QA))
    prints = {
        open_model("pipeline", ranker=ranker, spans=finder).fingerprint()
        for ranker in ("overlap", {"model": "random", "seed": 1}, {"model": "random", "seed": 2})
        for finder in ("last_sentence", "whole_text", head)
    }
    assert len(prints) == 9


def test_what_learns_is_shown_the_task(open_model: Any) -> None:
    both = open_model("pipeline", ranker="tfidf", spans="last_sentence")
    assert both.fit_splits == ("test",)
    both.fit(RankingExample(id="1", query=line, candidates=tuple(LINES), relevant=frozenset({0})) for line in LINES)
    assert both.score_pairs([TextPair(LINES[0], LINES[0])]) == [pytest.approx(1)]
    assert not hasattr(open_model("pipeline", ranker="overlap", spans="last_sentence"), "fit_splits")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'pipeline' has no ranker: --model pipeline --model_args ranker=MODEL,spans=MODEL"),
        ({"ranker": "overlap"}, "'pipeline' has no spans"),
        ({"model": "minilm"}, "takes no model after the colon; name its parts"),
        ({"ranker": "overlp", "spans": "random"}, "pipeline, ranker=overlp: .*did you mean 'overlap'"),
        ({"ranker": "./nowhere", "spans": "random"}, "pipeline, ranker=./nowhere: there is no folder"),
        ({"ranker": "overlap", "spans": "tfidf"}, "spans=tfidf: it has score_pairs, but needs find_spans"),
        (
            {"ranker": "whole_text", "spans": "whole_text"},
            "ranker=whole_text: it has find_spans, but needs embed",
        ),
        ({"ranker": {"model": "random", "sed": 3}, "spans": "random"}, "ranker=random: .*no option 'sed'.*'seed'"),
        ({"ranker": {"seed": 3}, "spans": "random"}, "'pipeline' has no ranker"),
    ],
)
def test_parts_that_are_none_are_named_in_one_line(options: dict[str, Any], message: str, open_model: Any) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        open_model("pipeline", **options)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_whole_run_with_a_trained_head(workshop: Workshop, tmp_path: Path) -> None:
    """Gated span scores are the same whether spans are asked for at once or in turn; here every proverb ties."""
    parts = {"ranker": "chance", "spans": str(workshop("bert", QA))}
    scores = {}
    for way in ("at_once", "in_turn"):
        folder = finished(
            tmp_path / way, "mini_joint", model="pipeline", model_args=parts, routes={"joint": way}, baselines=False
        )
        (task,) = load(folder).record.tasks
        assert (task.route, task.settings["routes"]) == (way, {"ranking": "by_pair_score", "spans": "by_head"})
        scores[way] = {score.metric: score.value for score in task.scores}
    assert scores["at_once"] == scores["in_turn"]
    assert scores["at_once"]["acc"] == pytest.approx(1 / 30)
    assert scores["at_once"]["span_f1"] > 0


def test_the_span_route_may_be_named_too(workshop: Workshop, tmp_path: Path) -> None:
    options = {"ranker": "overlap", "spans": str(workshop("bert", QA))}
    chosen = {"joint": "at_once", "spans": "by_window_score"}
    run = finished(tmp_path / "run", "mini_joint", model="pipeline", model_args=options, routes=chosen, baselines=False)
    (task,) = load(run).record.tasks
    assert task.settings["routes"] == {"ranking": "by_pair_score", "spans": "by_window_score"}
