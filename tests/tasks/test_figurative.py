"""FLUTE, Fig-QA and Figurative-NLI: readers on rows of our own, explained labels, and counts on the real files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import DataError, GenerationExample, MetricContext, ModelError, Prediction
from figeval.testing import check_metric
from tests.aggregated import metric_factory, score_of, statistic
from tests.sources import read_rows

QUESTION = 'Does the sentence "It rained." entail or contradict the sentence "It "poured" cats."? Please answer so.'
TRAIN = {"translation": {"en1": QUESTION, "en2": "Entails. Cats stand for heavy rain."}}
GOLD = {"id": 1, "premise": "He had no money.", "hypothesis": "He was broke.", "explanation": "Broke is without money."}
IRONY = ",Tweet index,Label,split,premise,hyp,label\n0,1,1,{},Ann tweeted: 'great',Ann was ironic,{}\n"


def jsonl(file: Path, *rows: dict[str, Any]) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


# ---- readers ---------------------------------------------------------------------------------------------------------


def test_sentences_are_taken_from_questions_in_words(tmp_path: Path) -> None:
    jsonl(tmp_path / "FLUTEfinaltrain.json", TRAIN)
    (row,) = read_rows("flute:train", tmp_path)
    assert (row["premise"], row["hypothesis"], row["label"]) == ("It rained.", 'It "poured" cats.', "entailment")
    assert row["answer"] == "Entailment. Cats stand for heavy rain."


def test_gold_rows_know_their_figure_and_idiom(tmp_path: Path) -> None:
    jsonl(tmp_path / "testgolddata/idiom_test.jsonl", {**GOLD, "label": "Entailment", "idiom": "be broke"})
    for figure in ("metaphor", "sarcasm", "simile"):
        jsonl(tmp_path / f"testgolddata/{figure}_test.jsonl", {**GOLD, "label": "Contradiction"})
    rows = read_rows("flute:test", tmp_path)
    assert [(row["id"], row["figure"], row["label"]) for row in rows][:2] == [
        ("idiom-0", "idiom", "entailment"),
        ("metaphor-0", "metaphor", "contradiction"),
    ]
    assert len({row["cluster"] for row in rows}) == 2  # the idiom, and the premise that three rows share
    assert not any("broke" in row["cluster"] for row in rows)  # rows that are stored hold no texts


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"translation": {"en1": "Hm?", "en2": "Entails. x"}}, "field 'en1': expected a question about two sentences"),
        ({"translation": {"en1": QUESTION, "en2": "Maybe. x"}}, "field 'en2': expected a label and an explanation"),
        ({"translation": 3}, "row 0, field 'en1': expected"),
    ],
)
def test_another_question_is_one_line(tmp_path: Path, row: dict[str, Any], words: str) -> None:
    jsonl(tmp_path / "FLUTEfinaltrain.json", row)
    with pytest.raises(DataError, match=words):
        read_rows("flute:train", tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"), [({"label": "Neutral"}, "'Neutral' is neither of the labels"), ({}, "no text 'label'")]
)
def test_a_gold_row_without_a_label_is_one_line(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    jsonl(tmp_path / "testgolddata/idiom_test.jsonl", {**GOLD, **changes})
    with pytest.raises(DataError, match=words):
        read_rows("flute:test", tmp_path)


def figqa(folder: Path, split: str, *lines: str) -> list[Any]:
    text = "\n".join(("startphrase,ending1,ending2,labels,valid,qid", *lines, ""))
    (folder / f"{split}.csv").write_text(text, encoding="utf-8")
    return read_rows(f"figqa:{split}", folder)


def test_figqa_has_pairs_and_hidden_labels(tmp_path: Path) -> None:
    first, second = figqa(tmp_path, "dev", "She is a rock,calm,hasty,0,1,7", "She is a wave,calm,hasty,1,1,7")
    assert (first["gold"], second["gold"], first["pair"], second["pair"]) == (0, 1, "dev-7", "dev-7")
    assert [row["gold"] for row in figqa(tmp_path, "test", "a,b,c,-1,1,0", "d,b,c,-1,1,0")] == [None, None]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("a,b,c,1,1,7", "d,b,c,1,1,7"), "row 1, field 'labels': both rows of pair 7 are 1; they must differ"),
        (("a,b,c,2,1,7",), "row 0, field 'labels': '2' is not one of 0, 1, -1"),
    ],
)
def test_a_pair_with_equal_labels_is_one_line(tmp_path: Path, lines: tuple[str, ...], words: str) -> None:
    with pytest.raises(DataError, match=words):
        figqa(tmp_path, "dev", *lines)


def test_irony_is_read_from_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIGEVAL_DATA_COPIES", f"fignli={tmp_path}")
    file = tmp_path / "data" / "irony" / "recast_irony.csv"
    file.parent.mkdir(parents=True)
    file.write_text(IRONY.format("test", "False"), encoding="utf-8")
    (row,) = read_rows("fignli:published_irony")
    assert (row["id"], row["hypothesis"], row["label"]) == ("irony-0", "Ann was ironic", "not_entailment")
    file.write_text(IRONY.format("train", "True"), encoding="utf-8")
    assert read_rows("fignli:published_irony") == []
    file.write_text(IRONY.format("test", "yes"), encoding="utf-8")
    with pytest.raises(DataError, match="row 0, field 'label': 'yes' is neither True nor False"):
        read_rows("fignli:published_irony")


def test_without_a_copy_the_message_says_how_to_give_one() -> None:
    with pytest.raises(DataError, match=r"there is no recast_irony\.csv .* --data fignli=FOLDER"):
        read_rows("fignli:published_irony")


@pytest.mark.parametrize("scheme", ["flute", "figqa", "fignli"])
def test_unknown_parts_are_named(scheme: str) -> None:
    with pytest.raises(DataError, match=f"{scheme} has no rows 'tset'"):
        read_rows(f"{scheme}:tset")


def test_the_real_files(real_data: str) -> None:
    test = read_rows("flute:test")
    assert Counter(row["figure"] for row in test) == {"idiom": 250, "metaphor": 248, "sarcasm": 750, "simile": 250}
    assert Counter(row["label"] for row in test) == {"entailment": 663, "contradiction": 835}
    assert [len(read_rows(f"flute:{split}")) for split in ("train", "dev")] == [7035, 499]
    assert [len(read_rows(f"figqa:{split}")) for split in ("train", "dev", "test")] == [
        8016,
        1094,
        1146,
    ]
    assert [len(read_rows(f"fignli:{figure}")) for figure in ("metaphor", "simile")] == [613, 598]
    answers = {row["answer"].partition(". ")[0] for row in test}
    assert answers == {"Entailment", "Contradiction"}


# ---- explained labels ------------------------------------------------------------------------------------------------


class Judge:
    """A model whose vectors are word counts of "wet" and "dry"."""

    capabilities = frozenset({"embed"})
    fingerprint = "counts"
    about: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.texts: list[str] = []

    def role(self, _example: Any) -> None:
        return None

    def answer(self, requests: Any) -> list[tuple[Any, bool]]:
        self.texts += [request.text for request in requests]
        return [
            (np.array([request.text.count("wet") + 0.1, request.text.count("dry") + 0.1]), False)
            for request in requests
        ]


def explained_50(judge: Any) -> Any:
    settings = {"argument": "judge", "task": "t", "languages": ("en",), "trained": lambda _name: {}}
    make = metric_factory("acc@50", "generation")
    return make(MetricContext(name="acc@50", model=lambda _name: judge, **settings))


def case(
    text: str | None, value: float | None = None, label: str = "Entailment"
) -> tuple[GenerationExample, Prediction, float | None]:
    example = GenerationExample(id="1", inputs={"premise": "p"}, references=(f"{label}. It is wet.",))
    return example, Prediction(example_id="1", value=text, status="ok" if text is not None else "empty"), value


@pytest.mark.parametrize(
    ("text", "label", "explanation"),
    [
        ("Entailment. Rain is wet.", "Entailment", "Rain is wet"),
        ("entails - it is wet", "Entailment", "it is wet"),
        ("**Contradiction**: dry", "Contradiction", "dry"),
        ("Label: Contradicts\nit is dry", "Contradiction", "it is dry"),
        ("Contradiction", "Contradiction", ""),
        ("It is an entailment", "", ""),
        ("Entailmentish", "", ""),
        ("", "", ""),
    ],
)
def test_a_text_begins_with_its_label(text: str, label: str, explanation: str) -> None:
    example, prediction, _ = case(text, label=label or "Entailment")
    judge = Judge()
    value = score_of("acc@0", "generation", [(example, prediction)])
    explained_50(judge).batch([(example, prediction)])
    assert value == (1.0 if label else None)
    assert judge.texts == ([explanation, "It is wet"] if explanation else [])


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    example, prediction, _ = case(text)
    assert score_of("acc@0", "generation", [(example, prediction)]) in (0.0, 1.0, None)


def test_a_label_counts_where_its_explanation_is_close_enough() -> None:
    cases = [
        case("Entailment. So wet.", 1.0),
        case("Entailment. So dry.", 0.0),
        case("Entailment.", 0.0),
        case("Contradiction. So wet.", 0.0),
        case("Who knows?", None),
        case(None, None),
    ]
    check_metric(explained_50(Judge()), cases)
    of_labels = [1.0, 1.0, 1.0, 0.0, None, None]
    check_metric(
        statistic("acc@0", "generation"),
        [(example, explanation, value) for (example, explanation, _), value in zip(cases, of_labels, strict=True)],
    )


def test_a_text_without_a_label_is_counted() -> None:
    example, explanation, _ = case("Who knows?", None)
    (measured,) = statistic("acc@0", "generation").batch([(example, explanation)])
    assert (measured.value, measured.remarks) == (None, ("texts that do not begin with a label",))


def test_a_model_that_compares_nothing_is_refused() -> None:
    judge = Judge()
    judge.capabilities = frozenset({"generate"})
    with pytest.raises(ModelError, match="acc@50=judge: it offers generate; name a model that embeds or scores pairs"):
        explained_50(judge)


def test_a_score_has_to_be_a_share() -> None:
    judge = Judge()
    judge.capabilities = frozenset({"score_pairs"})
    judge.answer = lambda requests: [(3.0, False) for _ in requests]  # type: ignore[method-assign]
    example, explanation, _ = case("Entailment. So wet.", None)
    with pytest.raises(ModelError, match="the score 3 is not between 0 and 1"):
        explained_50(judge).batch([(example, explanation)])
