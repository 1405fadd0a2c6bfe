"""Narrative generation: the rows of every split of the real data, and what the prompts say without keywords."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from figeval import DataError, GenerationExample, Harness, Prediction
from tests.aggregated import score_of
from tests.sources import Source


@pytest.fixture
def nltk_keywords(real_data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keywords are those that NLTK's tagger finds; skips the test without its data."""
    import nltk

    monkeypatch.setenv("FIGEVAL_SPACY_MODEL", "")
    monkeypatch.setattr(nltk.data, "path", [*nltk.data.path, str(Path(real_data) / "nltk" / "packages")])
    try:
        next(iter(Source("epic:narrative_seen_test")))
    except DataError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.usefixtures("nltk_keywords")
def test_splits_of_the_real_data() -> None:
    sizes, rows_of_split = {}, {}
    for kind in ("seen", "unseen"):
        for style in ("", "authors_"):
            for part in ("train", "test"):
                source = Source(f"epic:narrative_{kind}_{style}{part}")
                rows = rows_of_split[kind, style, part] = list(source)
                sizes[kind, style, part] = len(rows), len({row["proverb_id"] for row in rows})
    assert sizes == {
        ("seen", "", "train"): (1500, 250),
        ("seen", "", "test"): (1000, 250),
        ("seen", "authors_", "train"): (2000, 250),
        ("seen", "authors_", "test"): (500, 250),
        ("unseen", "", "train"): (1500, 150),
        ("unseen", "", "test"): (1000, 100),
        ("unseen", "authors_", "train"): (2000, 200),
        ("unseen", "authors_", "test"): (500, 50),
    }
    for kind in ("seen", "unseen"):
        for style in ("", "authors_"):
            train, test = ({row["id"] for row in rows_of_split[kind, style, part]} for part in ("train", "test"))
            assert not train & test
            if kind == "unseen":
                assert not {key.partition("N")[0] for key in train} & {key.partition("N")[0] for key in test}
    assert set(Counter(row["proverb_id"] for row in rows_of_split["seen", "authors_", "test"]).values()) == {2}
    assert source.notes["keywords"]["extractor"] == "nltk"
    assert rows_of_split["seen", "authors_", "train"] == list(Source("epic:narrative_seen_authors_train"))
    check_keywords([row for rows in rows_of_split.values() for row in rows])


def check_keywords(rows: list[Any]) -> None:
    """The human text has all keywords: whoever scores less than 1 there measures the tokeniser."""
    by_id = {row["id"]: row for row in rows}
    assert len(by_id) == 2500
    assert all(keyword in row["narrative"] for row in by_id.values() for keyword in row["keywords"])
    assert 10.0 < sum(len(row["keywords"]) for row in by_id.values()) / 2500 < 11.0
    lemma = []
    for row in list(by_id.values())[::10]:
        inputs = {"proverb": row["proverb_lower"], "keywords": row["keywords_lower"]}
        example = GenerationExample(id=row["id"], inputs=inputs, references=(row["narrative_lower"],))
        human = Prediction(example_id=row["id"], value=row["narrative"])
        assert score_of("keyword_recall", "generation", [(example, human)]) in (1.0, None)
        lemma.append(score_of("keyword_recall_lemma", "generation", [(example, human)]))
    assert min(value for value in lemma if value is not None) > 0.8


@pytest.mark.parametrize("name", ["epic_narrative_seen", "epic_narrative_unseen"])
def test_the_split_of_the_authors_is_the_same_task_on_other_rows(name: str) -> None:
    tasks = Harness().catalogue.tasks
    official = tasks.get(name)
    other = tasks.get(official.splits["authors"])
    assert other.name == f"{name}_authors"
    different = {key for key in type(official).model_fields if getattr(official, key) != getattr(other, key)}
    assert different <= {"name", "description", "data", "splits", "origin", "folder"}
