"""Dev is held out of train, as test differs from train."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import Example, Harness, PairExample, RankingExample, SpanExample, TaskSpec, TrainError, plugins
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.splits import (
    choose_holdout,
    hold_out_clusters,
    hold_out_in_turns,
    hold_out_rows,
    make_splits,
    split_warnings,
    subject_letters,
)
from tests.typed import bound, task_types

RANKING = task_types().get("ranking")


def ranking_example(name: str, cluster: str | None, gold: int = 0) -> RankingExample:
    candidates = ("a", "b", "c", "d")
    return RankingExample(id=name, query=name, candidates=candidates, relevant=frozenset({gold}), cluster=cluster)


def proverbs(each: int, clusters: int) -> list[RankingExample]:
    return [ranking_example(f"Q{c}N{n}", f"Q{c}", c % 4) for c in range(clusters) for n in range(each)]


def task(train: list[Example], test: list[Example], **fields: object) -> tuple[TaskSpec, Harness]:
    spec = bound(
        name="made_up", type="ranking", data={"train": "x:train", "test": "x:test"},
        fields={"id": "a", "query": "a", "candidates": "a", "relevant": "a"}, **fields,
    )  # fmt: skip

    class Made(Harness):
        def examples(self, task: TaskSpec, split: str = "test"):  # type: ignore[no-untyped-def]
            return iter({"train": train, "test": test, "dev": test}[split])

    return spec, Made(plugins.plugin_manager())


def config(**changes: object) -> TrainConfig:
    return TrainConfig.model_validate({"task": "t", "model": "m", "output": "o", "batch_size": 2, **changes})


def test_as_test_differs_from_train() -> None:
    train = proverbs(6, 5)
    assert choose_holdout(train, [ranking_example("new", "Q1")]) == "within"
    assert choose_holdout(train, [ranking_example("new", "Q99")]) == "cluster"
    assert choose_holdout([ranking_example("a", None)], [ranking_example("b", None)]) == "row"


@given(st.integers(1, 8), st.integers(1, 12), st.floats(0.01, 0.9))
def test_nothing_is_lost_and_no_cluster_is_emptied(each: int, clusters: int, share: float) -> None:
    train = proverbs(each, clusters)
    for holdout in (hold_out_rows, hold_out_in_turns, hold_out_clusters):
        held, rest = holdout(train, share)
        assert Counter(example.id for example in (*held, *rest)) == Counter(example.id for example in train)
    held, rest = hold_out_in_turns(train, share)
    assert {example.cluster for example in rest} == {example.cluster for example in train}
    assert len(held) == min(round(share * len(train)), clusters * (each - 1))
    held, rest = hold_out_clusters(train, share)
    assert not {example.cluster for example in rest} & {example.cluster for example in held}
    assert rest


def test_turns_go_round_the_clusters() -> None:
    held, _ = hold_out_in_turns(proverbs(6, 10), 0.25)
    assert sorted(Counter(example.cluster for example in held).values()) == [1] * 5 + [2] * 5


@pytest.mark.parametrize("holdout", [hold_out_rows, hold_out_in_turns])
def test_questions_about_one_text_are_never_parted(holdout: Callable[..., Any]) -> None:
    """Nor does it matter how many questions there are, or how the text is written: other tasks hold out the same."""
    queries = proverbs(6, 10)
    questions: list[Example] = [
        SpanExample(
            id=f"{example.id}S{n}",
            text=f"{example.query.lower()}!",
            given="",
            known="",
            gold=None,
            cluster=example.cluster,
        )
        for example in reversed(queries)
        for n in range(1 + len(example.id) % 3)
    ]
    held, rest = holdout(questions, 0.2)
    texts = {subject_letters(example) for example in held}
    assert texts.isdisjoint({subject_letters(example) for example in rest})
    assert texts == {subject_letters(example) for example in holdout(queries, 0.2)[0]}
    assert len(texts) == 12


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
def test_a_joint_model_is_not_chosen_on_what_its_ranker_has_learnt() -> None:
    harness = Harness()
    splits_of_tasks = [
        make_splits(harness.catalogue.tasks.get(name), config(task=name), harness)
        for name in ("epic_retrieval_seen", "epic_joint", "epic_alignment", "epic_narrative_seen")
    ]
    held = [{subject_letters(example) for example in splits.dev} for splits in splits_of_tasks]
    assert held == [held[0]] * 4
    assert len(held[0]) == 150
    assert not any(held[0] & {subject_letters(example) for example in splits.train} for splits in splits_of_tasks)


def test_held_out_proverbs_are_no_wrong_answers_in_training() -> None:
    examples = [ranking_example("x", "Q1", 1), ranking_example("y", "Q3", 3)]
    restricted = RANKING.restrict_to_split(list(examples))
    assert [(example.candidates, example.relevant) for example in restricted] == [  # type: ignore[attr-defined]
        (("b", "d"), frozenset({0})),
        (("b", "d"), frozenset({1})),
    ]


def test_grades_move_with_the_candidates_that_stay() -> None:
    graded = replace(ranking_example("y", "Q3", 3), grades={3: 2.0})
    restricted = RANKING.restrict_to_split([ranking_example("x", "Q1", 1), graded])
    assert [example.grades for example in restricted] == [{}, {1: 2.0}]  # type: ignore[attr-defined]


def test_unseen_proverbs_are_held_out_whole() -> None:
    spec, harness = task(list(proverbs(4, 4)), [ranking_example("t", "Q77")])
    splits = make_splits(spec, config(holdout=0.25), harness)
    assert "by cluster" in splits.source
    assert {example.cluster for example in splits.dev}.isdisjoint({example.cluster for example in splits.train})
    sizes = {len(example.candidates) for example in splits.train}  # type: ignore[attr-defined]
    assert sizes == {3}


def test_the_holdout_is_that_of_the_task_whatever_the_seed() -> None:
    spec, harness = task(list(proverbs(6, 4)), [ranking_example("t", "Q1")])
    ids_of_seeds = [[example.id for example in make_splits(spec, config(seed=seed), harness).dev] for seed in (0, 1)]
    assert ids_of_seeds[0] == ids_of_seeds[1] != []


def test_test_is_for_choosing_only_if_that_was_said() -> None:
    spec, harness = task(list(proverbs(6, 4)), [ranking_example("t", "Q1")])
    assert [example.id for example in make_splits(spec, config(select_on="test"), harness).dev] == ["t"]
    undivided = make_splits(spec, config(select_on="none"), harness)
    assert (len(undivided.train), undivided.dev) == (24, [])


def test_a_split_of_the_task_s_own_is_taken() -> None:
    spec, harness = task(list(proverbs(6, 4)), [ranking_example("t", "Q1")])
    spec_with_dev = spec.model_copy(update={"data": {**spec.data, "dev": "x:dev"}})
    splits = make_splits(spec_with_dev, config(), harness)
    assert (len(splits.train), [example.id for example in splits.dev]) == (24, ["t"])


def test_dev_has_every_language_of_the_task() -> None:
    train = [replace(example, language="en") for example in proverbs(6, 4)]
    spec, harness = task(list(train), [ranking_example("t", "Q1")])
    spec = spec.model_copy(update={"language": ("en", "sw")})
    with pytest.raises(TrainError, match=r"nothing in 'sw' is held out, .* or use --select_on none"):
        make_splits(spec, config(), harness)
    assert len(make_splits(spec, config(select_on="none"), harness).train) == 24


def test_what_cannot_be_trained_is_one_line() -> None:
    spec, harness = task(list(proverbs(2, 2)), [ranking_example("t", "Q1")])
    with pytest.raises(TrainError, match="--batch_size 64 exceeds the 4 examples"):
        make_splits(spec, config(batch_size=64, select_on="none"), harness)
    with pytest.raises(TrainError, match="has no train split"):
        make_splits(spec.model_copy(update={"data": {"test": "x:test"}}), config(), harness)
    pairs = [PairExample(id=str(n), left="a", right="b", label="yes") for n in range(4)]
    fields = {"id": "a", "left": "a", "right": "a", "label": "a"}
    labelled = bound(name="made_up", type="pairs", data=spec.data, labels=("yes", "no"), fields=fields)
    _, harness = task(list(pairs), [pairs[0]])
    with pytest.raises(TrainError, match="no training example has the label 'no'"):
        make_splits(labelled, config(select_on="none"), harness)


def test_a_probe_shows_the_same_examples_without_their_query() -> None:
    """Dev is held out as without it, so that a model with and one without the query are chosen on the same examples."""
    spec, harness = task(proverbs(6, 5), [ranking_example("new", "Q1")])
    plain, blind = (make_splits(spec, config(probe=probe), harness) for probe in (None, "no_query"))
    assert [example.id for example in blind.train] == [example.id for example in plain.train]
    assert [example.id for example in blind.dev] == [example.id for example in plain.dev]
    assert {example.query for example in (*blind.train, *blind.dev)} == {""}
    assert [example.relevant for example in blind.dev] == [example.relevant for example in plain.dev]
    assert blind.source == plain.source


def test_a_probe_that_the_task_type_does_not_have_is_refused() -> None:
    spec, harness = task(proverbs(6, 5), [ranking_example("new", "Q1")])
    with pytest.raises(TrainError, match=r"--probe no_story: ranking tasks have no such probe.*; they have no_query"):
        make_splits(spec, config(probe="no_story"), harness)


def test_trainings_of_an_earlier_figeval_keep_their_identity() -> None:
    assert config().identity() == config(probe=None).identity() != config(probe="no_query").identity()


@pytest.mark.parametrize(
    ("has_dev", "n", "changes", "cures"),
    [
        (False, 60, {}, r"±40 points .*; hold out more \(--holdout 0\.5\), or use --select_on none"),
        (False, 40, {}, r"±49 points .* best by chance; use --select_on none"),
        (False, 300, {}, None),
        (True, 60, {}, r"only 5 .*; give the task a dev split of 30 examples or more, or use --select_on none"),
        (True, 60, {"select_on": "test"}, r"only 5 examples \(the test split\).* chance; use --select_on none"),
        (True, 60, {"select_on": "none"}, None),
    ],
    ids=["a larger holdout", "too small for a holdout", "enough", "the task's own", "test", "not chosen"],
)
def test_a_choice_on_few_examples_is_warned_of(has_dev: bool, n: int, changes: dict[str, object], cures: str) -> None:
    """Below thirty examples, an interval is so wide that the best of several checkpoints is best by chance."""
    spec, harness = task(
        [ranking_example(f"{i}", None) for i in range(n)], [ranking_example(f"t{i}", None) for i in range(5)]
    )
    if has_dev:
        spec = spec.model_copy(update={"data": {**spec.data, "dev": "x:dev"}})
    train_config = config(**changes)
    warnings = list(split_warnings(make_splits(spec, train_config, harness), spec, train_config))
    assert warnings == [] if cures is None else len(warnings) == 1 and re.search(cures, warnings[0])


def test_a_trial_with_a_limit_is_warned_of_what_it_cannot_show() -> None:
    """A batch larger than the data, and a dev split on which any model is right, are no errors of a trial."""
    spec, harness = task(
        [ranking_example(f"{i}", None) for i in range(9)],
        [replace(ranking_example(f"t{i}", None), candidates=("a",)) for i in range(40)],
    )
    spec = spec.model_copy(update={"data": {**spec.data, "dev": "x:dev"}})
    train_config = config(batch_size=64, limit=8)
    large, trivial = split_warnings(make_splits(spec, train_config, harness), spec, train_config)
    assert re.search(r"--batch_size 64 exceeds the 8 examples .*--limit 8", large)
    assert re.search("chosen on examples that have a single candidate, so that any model is right", trivial)
    with pytest.raises(TrainError, match="--batch_size 64 exceeds the 9 examples"):
        make_splits(spec, config(batch_size=64), harness)


def test_a_dev_split_with_one_label_is_warned_of() -> None:
    train = [PairExample(id=str(n), left="a", right="b", label=("yes", "no")[n % 2]) for n in range(40)]
    spec, harness = task(list(train), [replace(train[0], id=f"t{n}") for n in range(40)])
    fields = {"id": "a", "left": "a", "right": "a", "label": "a"}
    data = {**spec.data, "dev": "x:dev"}
    pairs = bound(name="made_up", type="pairs", labels=("yes", "no"), data=data, fields=fields)
    (trivial,) = split_warnings(make_splits(pairs, config(), harness), pairs, config())
    assert "all have the label 'yes'" in trivial


def test_trainings_before_skip_long_keep_their_identity() -> None:
    assert config().identity() == config(skip_long=False).identity() != config(skip_long=True).identity()
