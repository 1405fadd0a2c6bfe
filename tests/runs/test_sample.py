"""Parts of a task: `--limit` takes the first examples, `--sample` random ones, and every model gets the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import figeval
from figeval.records.run_folder import RunFolder
from figeval.spec.survey import Portion, survey
from figeval.testing.fakes import FakePairScorer
from tests.runs.conftest import Workshop, write_task

SIZES = (3, 1, 6, 2, 8)  # of the clusters of `birds`


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


def draw_ids(population: list[figeval.ChoiceExample], **portion: Any) -> list[str]:
    """Ids of the examples of a portion, in order."""
    return [example.id for example in survey("t", lambda: population, Portion(**portion)).subset.of(population)]


# ---- which examples --------------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12).map(tuple),
    group=st.integers(1, 3),
    seed=st.integers(-5, 5),
    stratify=st.sampled_from(["", "cluster", "bird"]),
    data=st.data(),
)
def test_a_sample_has_its_size_and_lies_in_a_larger_one(
    sizes: tuple[int, ...], group: int, seed: int, stratify: str, data: st.DataObject
) -> None:
    all_examples = examples(sizes, group)
    small, large = sorted(data.draw(st.tuples(st.integers(1, 60), st.integers(1, 60))))
    ids = draw_ids(all_examples, sample=small, seed=seed, stratify=stratify)
    assert len(ids) == min(small, len(all_examples))
    assert ids == [example.id for example in all_examples if example.id in set(ids)], "in the order of the task"
    assert set(ids) <= set(draw_ids(all_examples, sample=large, seed=seed, stratify=stratify))
    assert set(ids) == set(draw_ids(all_examples[::-1], sample=small, seed=seed, stratify=stratify)) or (group > 1)


@given(seed=st.integers(), n=st.integers(1, 20))
@example(seed=7110523, n=11)
def test_a_stratified_sample_has_the_share_of_every_cluster(seed: int, n: int) -> None:
    """A cluster's count is within 1 of its size times the last turn, and so are those that determine this turn."""
    counts = Counter(identity[:2] for identity in draw_ids(examples(), sample=n, seed=seed, stratify="cluster"))
    for cluster, size in enumerate(SIZES):
        assert abs(counts[f"c{cluster}"] - n * size / 20) < 1 + len(SIZES) * size / 20


def test_the_share_of_a_cluster_is_nearly_always_rounded_up_or_down() -> None:
    all_examples = examples()
    off = 0
    for seed in range(100):
        counts = Counter(identity[:2] for identity in draw_ids(all_examples, sample=11, seed=seed, stratify="cluster"))
        off += sum(abs(counts[f"c{cluster}"] - 11 * size / 20) >= 1 for cluster, size in enumerate(SIZES))
    assert off <= 25, f"{off} of 500"


@pytest.mark.slow
def test_every_example_is_as_likely_as_any_other() -> None:
    all_examples = examples()
    for stratify in ("", "cluster"):
        counts = Counter(
            identity
            for seed in range(800)
            for identity in draw_ids(all_examples, sample=5, seed=seed, stratify=stratify)
        )
        assert set(counts) == {example.id for example in all_examples}
        assert all(140 < count < 265 for count in counts.values()), counts  # 200 expected, sd 12


def test_a_cluster_of_one_has_its_share_too() -> None:
    """Without clusters, a stratified sample is a plain one of the same size."""
    lonely = [crow_example(id=str(number)) for number in range(30)]
    assert len(draw_ids(lonely, sample=7, stratify="cluster")) == 7


@pytest.mark.parametrize(
    ("size", "n"), [(1, 1), (99, 20), (0.1, 2), (0.11, 3), (0.15, 3), (0.001, 1), (0.999, 20), (0.35, 7)]
)
@pytest.mark.parametrize("flag", ["limit", "sample"])
def test_a_share_is_rounded_up(flag: str, size: float, n: int) -> None:
    """As in lm-eval; .35 of 20 is 7, although .35 * 20 is 7.000000000000001 as a float."""
    assert len(draw_ids(examples(), **{flag: size})) == n


@pytest.mark.parametrize(("limit", "cut"), [(None, ""), (1, "x"), (2, "xy"), (3, "y"), (4, ""), (9, "")])
def test_the_minimal_pairs_that_a_limit_cuts_are_known(limit: int | None, cut: str) -> None:
    pairs = [crow_example(id=str(n), group=group) for n, group in enumerate("xyxyz")]
    subset = survey("t", lambda: pairs, Portion(limit=limit)).subset
    assert subset.cut == set(cut)
    assert [example.group for example in subset.of(pairs)] == [None if g in cut else g for g in "xyxyz"[: limit or 5]]


@given(n=st.integers(1, 20), seed=st.integers(0, 99), stratify=st.sampled_from(["", "cluster"]))
def test_minimal_pairs_are_drawn_as_a_whole(n: int, seed: int, stratify: str) -> None:
    all_examples = examples((4, 4, 4, 4, 4), group=2)
    subset = survey("t", lambda: all_examples, Portion(sample=n, seed=seed, stratify=stratify)).subset
    assert len(subset.cut) == n % 2
    assert all(
        count == 2 for group, count in Counter(example.group for example in subset.of(all_examples)).items() if group
    )


def test_hidden_answers_are_counted_among_the_examples_that_are_used() -> None:
    all_examples = [
        figeval.ChoiceExample(id=str(n), query="q", options=("a", "b"), gold=None if n % 2 else 0) for n in range(9)
    ]
    for portion in (Portion(), Portion(limit=4), Portion(sample=4)):
        subset = survey("t", lambda: all_examples, portion).subset
        assert subset.hidden == sum(example.gold is None for example in subset.of(all_examples))


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
    return [row["id"] for row in RunFolder(run.path).rows(task)]


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
    lines = [line for line in export(first, disjoint).splitlines() if line.startswith("| crows |")]
    assert [line.count(" – ") for line in lines] == [1, 1]


def export(*runs: figeval.Run) -> str:
    from figeval import plugins
    from figeval.runs.stored import load_exporters

    return load_exporters(plugins.plugin_manager()).get("markdown")([run.record for run in runs])


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
    assert json.loads((workshop.path / "run" / "run.json").read_text())["config"]["limit"] == 0.3


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
