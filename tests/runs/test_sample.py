"""Parts of a task: `--limit` takes the first examples, `--sample` random ones, and every model gets the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import figeval
from figeval.testing.fakes import FakePairScorer
from tests.runs.conftest import Workshop, write_task

SIZES = (3, 1, 6, 2, 8)  # of the clusters of `birds`
N_DRAWS, SAMPLE = 60, 11  # samples of 11 of the 20 examples of these clusters


def crow_example(**changes: Any) -> figeval.ChoiceExample:
    options = ("the crow sings", "a snail is slow")
    return figeval.ChoiceExample(query="a crow sings", options=options, gold=0, **changes)


def examples(sizes: tuple[int, ...] = SIZES, group: int = 1) -> list[figeval.ChoiceExample]:
    """Examples `c0-0`, `c0-1` … of clusters of these sizes; every `group` neighbours are a minimal pair if above 1."""
    names = [(f"c{cluster}", row) for cluster, size in enumerate(sizes) for row in range(size)]
    return [
        crow_example(
            id=f"{name}-{row}", cluster=name, meta={"bird": name}, group=f"{name}/{row // group}" if group > 1 else None
        )
        for name, row in names
    ]


def draw(folder: Path, population: list[figeval.ChoiceExample], **portion: Any) -> figeval.Run:
    """Run a task with these examples, of which a portion is used."""
    drawn = figeval.task(name="drawn", type="choice", labels=(), baselines=())(lambda: iter(population))
    return figeval.run(drawn, FakePairScorer(), output_path=folder / "run", fresh=True, **portion)


def draw_ids(folder: Path, population: list[figeval.ChoiceExample], **portion: Any) -> list[str]:
    """Ids of the examples of a portion, in order."""
    return ids(draw(folder, population, **portion), "drawn")


def draws_of(folder: Path, n: int, **portion: Any) -> list[list[str]]:
    """Ids of many samples at once: of tasks with other names for the examples and clusters, by which they are drawn."""
    tasks = []
    for number in range(n):
        population = [
            replace(example, id=f"{number} {example.id}", cluster=f"{number} {example.cluster}")
            for example in examples()
        ]
        make = figeval.task(name=f"task{number}", type="choice", labels=(), baselines=())
        tasks.append(make(lambda population=population: iter(population)))
    run = figeval.run(tasks, FakePairScorer(), output_path=folder / "run", fresh=True, **portion)
    return [[identity.partition(" ")[2] for identity in ids(run, task)] for task in run.tasks]


# ---- which examples --------------------------------------------------------------------------------------------------

FEW_EXAMPLES = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW_EXAMPLES
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12).map(tuple),
    group=st.integers(1, 3),
    seed=st.integers(-5, 5),
    stratify=st.sampled_from(["", "cluster", "bird"]),
    portions=st.tuples(st.integers(1, 60), st.integers(1, 60)).map(sorted),
)
def test_a_sample_has_its_size_and_lies_in_a_larger_one(
    sizes: tuple[int, ...], group: int, seed: int, stratify: str, portions: list[int], tmp_path: Path
) -> None:
    all_examples = examples(sizes, group)
    small, large = portions
    options = {"seed": seed, "stratify": stratify}
    sample = draw_ids(tmp_path, all_examples, sample=small, **options)
    assert len(sample) == min(small, len(all_examples))
    assert sample == [example.id for example in all_examples if example.id in set(sample)], "in the order of the task"
    assert set(sample) <= set(draw_ids(tmp_path, all_examples, sample=large, **options))
    if group == 1:
        assert set(sample) == set(draw_ids(tmp_path, all_examples[::-1], sample=small, **options))


@pytest.fixture(scope="module")
def stratified_draws(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    return draws_of(tmp_path_factory.mktemp("draws"), N_DRAWS, sample=SAMPLE, stratify="cluster")


@pytest.mark.slow
def test_a_stratified_sample_has_the_share_of_every_cluster(stratified_draws: list[list[str]]) -> None:
    """A cluster's count is within 1 of its size times the last turn, and nearly always its rounded share."""
    off = 0
    for sample in stratified_draws:
        counts = Counter(identity[:2] for identity in sample)
        for cluster, size in enumerate(SIZES):
            distance = abs(counts[f"c{cluster}"] - SAMPLE * size / 20)
            assert distance < 1 + len(SIZES) * size / 20
            off += distance >= 1
    assert off <= 15, f"{off} of 300"


@pytest.mark.parametrize("stratify", ["", "cluster"])
def test_every_example_is_as_likely_as_any_other(
    stratify: str, stratified_draws: list[list[str]], tmp_path: Path
) -> None:
    draws = stratified_draws if stratify else draws_of(tmp_path, N_DRAWS, sample=SAMPLE)
    counts = Counter(identity for sample in draws for identity in sample)
    assert set(counts) == {example.id for example in examples()}
    assert all(17 < count < 49 for count in counts.values()), counts  # 33 expected, sd 3.9


def test_a_cluster_of_one_has_its_share_too(tmp_path: Path) -> None:
    """Without clusters, a stratified sample is a plain one of the same size."""
    lonely = [crow_example(id=str(number)) for number in range(30)]
    assert len(draw_ids(tmp_path, lonely, sample=7, stratify="language")) == 7


@pytest.mark.parametrize(
    ("size", "n"), [(1, 1), (99, 20), (0.1, 2), (0.11, 3), (0.15, 3), (0.001, 1), (0.999, 20), (0.35, 7)]
)
@pytest.mark.parametrize("flag", ["limit", "sample"])
def test_a_share_is_rounded_up(flag: str, size: float, n: int, tmp_path: Path) -> None:
    """As in lm-eval; .35 of 20 is 7, although .35 * 20 is 7.000000000000001 as a float."""
    assert len(draw_ids(tmp_path, examples(), **{flag: size})) == n


@pytest.mark.parametrize(("limit", "cut"), [(None, ""), (1, "x"), (2, "xy"), (3, "y"), (4, ""), (9, "")])
def test_the_minimal_pairs_that_a_limit_cuts_are_known(limit: int | None, cut: str, tmp_path: Path) -> None:
    pairs = [crow_example(id=str(n), group=group) for n, group in enumerate("xyxyz")]
    rows = draw(tmp_path, pairs, limit=limit).rows("drawn")
    assert [row["group"] for row in rows] == [None if g in cut else g for g in "xyxyz"[: limit or 5]]


@FEW_EXAMPLES
@given(n=st.integers(1, 20), seed=st.integers(0, 99), stratify=st.sampled_from(["", "cluster"]))
def test_minimal_pairs_are_drawn_as_a_whole(n: int, seed: int, stratify: str, tmp_path: Path) -> None:
    all_examples = examples((4, 4, 4, 4, 4), group=2)
    rows = draw(tmp_path, all_examples, sample=n, seed=seed, stratify=stratify).rows("drawn")
    sizes = Counter(row["group"] for row in rows)
    assert sizes.pop(None, 0) == n % 2
    assert set(sizes.values()) <= {2}


def test_hidden_answers_are_counted_among_the_examples_that_are_used(tmp_path: Path) -> None:
    all_examples = [
        figeval.ChoiceExample(id=str(n), query="q", options=("a", "b"), gold=None if n % 2 else 0) for n in range(9)
    ]
    for portion in ({}, {"limit": 4}, {"sample": 4}):
        run = draw(tmp_path, all_examples, **portion)
        (task,) = run.record.tasks
        assert task.hidden == sum(row["gold"] is None for row in run.rows("drawn"))


# ---- in a run --------------------------------------------------------------------------------------------------------


@figeval.task(name="crows", type="choice", cluster="bird", labels=(), baselines=("chance",))
def crows() -> Iterator[figeval.ChoiceExample]:
    """Twenty questions in five clusters."""
    yield from examples()


class Other(FakePairScorer):
    """Has scores of its own."""

    def score_pairs(self, requests: Any) -> list[float]:
        return [-score for score in super().score_pairs(requests)]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ids(run: figeval.Run, task: str = "crows") -> list[str]:
    return [row["id"] for row in run.rows(task)]


@pytest.mark.wing("comparison")
def test_all_models_and_probes_get_the_same_sample_and_another_seed_another() -> None:
    first = figeval.run(crows, FakePairScorer(), sample=6, seed=3, probes=True, output_path="one")
    other = figeval.run(crows, Other(), sample=6, seed=3, output_path="other")
    assert ids(first) == ids(other) == ids(first, "crows@no_query") == ids(first, "crows@shuffled_query")
    assert [task.n for task in first.record.tasks] == [6, 6, 6]
    assert {task.sample_sha256 for task in (*first.record.tasks, *other.record.tasks)} == {
        first.record.tasks[0].sample_sha256
    }
    assert "--sample 6: random examples, seed 3" in first.warnings
    assert figeval.compare(first, other).differences["n"].tolist() == [6]
    assert "A and B: --sample 6: random examples, seed 3" in str(figeval.compare(first, other))
    again = figeval.run(crows, FakePairScorer(), sample=6, seed=4, output_path="again")
    assert ids(again) != ids(first)


@pytest.mark.wing("comparison")
@pytest.mark.wing("exporters")
def test_samples_with_no_example_in_common_are_not_compared() -> None:
    first, *other_runs = (
        figeval.run(crows, FakePairScorer(), sample=2, seed=seed, output_path=str(seed)) for seed in range(9)
    )
    disjoint = next(other for other in other_runs if not set(ids(first)) & set(ids(other)))
    with pytest.raises(figeval.RecordError, match="crows: the runs have no example of it in common; give both the sa"):
        figeval.compare(first, disjoint)
    table = figeval.export([first, disjoint], to="markdown")
    assert table is not None
    lines = [line for line in table.splitlines() if line.startswith("| crows |")]
    assert [line.count(" – ") for line in lines] == [1, 1]


def test_a_whole_sample_is_no_sample() -> None:
    all_examples = figeval.run(crows, FakePairScorer(), sample=20, output_path="whole")
    assert all_examples.record.tasks[0].sample_sha256 is None
    assert all_examples.warnings == ()


def test_the_same_command_continues_and_another_sample_does_not() -> None:
    first = figeval.run(crows, FakePairScorer(), sample=0.3, stratify="cluster")
    assert figeval.run(crows, FakePairScorer(), sample=0.3, stratify="cluster").path == first.path
    assert "--sample 0.3 --stratify cluster: random examples, seed 0" in first.warnings
    with pytest.raises(figeval.RecordError, match=r"another run \(sample was 0.3, is 0.4\)"):
        figeval.run(crows, FakePairScorer(), sample=0.4, stratify="cluster", output_path=first.path)


def test_a_task_without_the_column_is_drawn_plainly() -> None:
    lonely = figeval.task(name="lonely", type="choice", labels=())(lambda: (crow_example(id=str(n)) for n in range(9)))
    run = figeval.run([crows, lonely], FakePairScorer(), sample=4, stratify="bird")
    assert "lonely: not stratified, since no example has a value of bird" in run.warnings
    with pytest.raises(figeval.TaskError, match="--stratify brd: none of these tasks has it; did you mean 'bird'"):
        figeval.run([crows, lonely], FakePairScorer(), sample=4, stratify="brd")


def test_a_share_by_a_task_file(workshop: Workshop) -> None:
    write_task(workshop.folder, "t")
    (task,) = workshop.run(limit=0.3).tasks
    assert (task.n, task.available) == (6, 20)
    assert [row["id"] for row in workshop.rows()] == [f"t{number}" for number in range(6)]
    assert json.loads((workshop.output / "run.json").read_text())["config"]["limit"] == 0.3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(({flag: value}, f"{flag}={value!r}: a number of examples from 1, or a share")
          for flag in ("limit", "sample") for value in (0, -3, 1.0, 1.5, float("nan"), True, "1e-1", "many")),
        ({"limit": 3, "sample": 3}, "--limit takes the first examples, --sample random ones; give only one of them"),
        ({"stratify": "cluster"}, "--stratify is for random samples; give --sample too"),
    ],
)  # fmt: skip
def test_a_wrong_part(options: dict[str, Any], words: str) -> None:
    with pytest.raises(figeval.OptionError) as raised:
        figeval.run(crows, FakePairScorer(), **options)
    assert words in str(raised.value)
