"""ePiC from within: the analysis of its data, the diagnosis of runs, and how its questions are built."""

from __future__ import annotations

import csv
import hashlib
import importlib
import json
import re
from functools import cache
from importlib.resources import files
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval import CapabilityError, DataError, FigevalError, Harness, Model, ModelError
from figeval.builtin.tasks.epic import build, correlation, distractors, duplicates, epic_rows
from figeval.builtin.tasks.epic.alignment import SpanPair
from figeval.builtin.tasks.epic.analysis import (
    analyze_epic,
    corpus,
    figures,
    gender,
    hyponyms,
    language,
    overlap,
    reading,
    spans,
    store,
)
from figeval.builtin.tasks.epic.analysis.corpus import AnalysedTexts
from figeval.builtin.tasks.epic.analysis.part import AnalysedNumber, Analysis
from figeval.builtin.tasks.epic.build import Material
from figeval.builtin.tasks.epic.diagnosis import accuracy, answers, confusion, versus
from figeval.builtin.tasks.epic.diagnosis.answers import AnsweredRun, ProverbAnswer, ProverbQuestion
from figeval.io import plots
from figeval.language import nltk_data as packages_of_nltk
from figeval.metrics.texts import ngrams
from tests.browser import elements_of
from tests.cli.conftest import Cli
from tests.sources import read_rows as read_source

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = json.loads((ROOT / "golden" / "tasks" / "epic_analysis.json").read_text(encoding="utf-8"))
WORDS = st.frozensets(st.sampled_from("abcdef"))


@pytest.fixture
def nltk_data(real_data: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """NLTK's packages beside the real data; NLTK reads the variable only when it is imported."""
    import nltk

    packages = Path(real_data) / "nltk" / "packages"
    if not packages.is_dir():
        pytest.skip("no NLTK data beside the real data")
    monkeypatch.setattr(nltk.data, "path", [str(packages)])
    monkeypatch.setenv("NLTK_DATA", str(packages))
    return packages


SMALL_CORPUS = AnalysedTexts(
    narratives={
        "Q1N1": "He ran. She ran too, but he won!",
        "Q1N2": "Nobody ran.",
        "Q2N1": "Her dog  barked; it's fine.",
    },
    proverbs={"Q1": "Run a race", "Q2": "A dog is a dog"},
    spans={
        "Q1N1": (SpanPair(1, "Run", "HE ran"), SpanPair(2, "Run", "ran")),
        "Q1N2": (SpanPair(1, "a race", "ran"),),
        "Q2N1": (SpanPair(1, "dog", "Her dog"), SpanPair(2, "A dog", "dog  barked")),
    },
)


# ---- definitions ----------------------------------------------------------------------------------------------------


@given(st.lists(WORDS, min_size=1, max_size=5), st.lists(WORDS, min_size=1, max_size=4))
def test_sparse_products_are_jaccard(left: list[frozenset[str]], right: list[frozenset[str]]) -> None:
    matrix = overlap.incidence([*left, *right])
    jaccard, common = overlap.similarities(matrix[: len(left)], matrix[len(left) :])
    for i, row in enumerate(left):
        for j, other in enumerate(right):
            assert common[i, j] == len(row & other)
            assert jaccard[i, j] == pytest.approx(len(row & other) / len(row | other) if row | other else 0)


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=2, max_size=5), st.data())
def test_closed_form_is_the_mean_over_all_permutations(values: list[list[int]], data: st.DataObject) -> None:
    matrix = np.array(values, dtype=float)
    gold = data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)))
    drawn = [matrix[range(len(gold)), order].mean() for order in permutations(gold)]
    mean, spread = overlap.permutation_moments(matrix, gold)
    assert mean == pytest.approx(np.mean(drawn))
    assert spread == pytest.approx(np.std(drawn))


def test_no_narrative_is_paired_with_itself() -> None:
    matrix = overlap.incidence([{"a", "b"}, {"a"}, {"c"}])
    same, different = overlap.between_narratives(matrix, [0, 0, 1])
    assert (same.value, different.value) == (0.5, 0.0)
    alone, _ = overlap.between_narratives(matrix, [0, 1, 2])
    assert alone.value is None  # nothing to pair is unknown, not 0


def test_spans_of_a_small_corpus() -> None:
    numbers = {finding.name: finding.value for finding in spans.analyse(SMALL_CORPUS).findings}
    assert numbers["pairs"] == 5 and numbers["narratives with 2 pairs"] == 2
    assert numbers["narratives that use a proverb span twice"] == 1  # "Run" in Q1N1
    assert numbers["narratives with overlapping spans"] == 2  # "he ran" and "ran", "Her dog" and "dog  barked"
    assert numbers["ambiguous narrative spans"] == 2  # both of Q1N1: "She ran" holds "he ran"
    assert numbers["proverb spans found as written"] == 5
    assert numbers["narrative spans found as written"] == 4  # no "HE ran"
    assert numbers["pairs not found"] == 0 and numbers["narratives with double spaces"] == 1


@pytest.mark.parametrize(
    ("text", "span", "times"), [("ran and ran", "ran", 2), ("aaa", "aa", 2), ("a.b", ".", 1), ("", "x", 0)]
)
def test_occurrences_may_overlap_and_are_no_patterns(text: str, span: str, times: int) -> None:
    assert spans.occurrences(text, span) == times


def test_gendered_words_are_counted_as_words() -> None:
    analysis = gender.analyse(SMALL_CORPUS)
    assert analysis.narratives["male_mentions"] == {"Q1N1": 2, "Q1N2": 0, "Q2N1": 0}
    assert analysis.narratives["female_mentions"] == {"Q1N1": 1, "Q1N2": 0, "Q2N1": 1}
    assert analysis.details["narratives"] == {"male": 1, "female": 1, "equal": 0, "none": 1}
    assert gender.count("He's the ladies' hero, but there", gender.PRONOUNS) == {"male": 1, "female": 0}
    assert "not coreference" in analysis.name
    assert not gender.NOUNS["male"] & gender.NOUNS["female"]
    assert gender.percent({"male": 0, "female": 0}, "male") is None


def test_reading_ease_is_flesch_s_formula() -> None:
    assert reading.flesch(["one", "two"], 1, lambda _: 1) == pytest.approx(206.835 - 1.015 * 2 - 84.6)
    assert reading.flesch([], 1, len) is None
    hyphens, sonority = reading.by_hyphenation(), reading.by_sonority()
    assert [hyphens(word) for word in ("cat", "table", "remember")] == [1, 2, 3]
    assert [sonority(word) for word in ("cat", "table", "é")] == [1, 2, 1]


def test_reading_ease_is_left_out_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Any:
        raise ImportError("pyphen")

    monkeypatch.setattr(reading, "by_hyphenation", gone)
    assert "pip install 'figeval[analysis]'" in reading.analyse(SMALL_CORPUS).left_out


def test_a_finding_agrees_in_the_digits_that_were_printed() -> None:
    def finding(value: float | None, published: str, **extra: Any) -> AnalysedNumber:
        return AnalysedNumber(name="x", value=value, definition="", published=published, **extra)

    assert finding(0.0258402, "0.0258").agrees and finding(16170, "16170").agrees
    assert finding(4.274, "4.26").agrees is False
    assert finding(None, "4.26").agrees is None and finding(1.0, "").agrees is None
    assert finding(0.0209, "0.0211", interval=(0.0204, 0.0214)).covers
    assert not finding(0.0209, "0.0215", interval=(0.0204, 0.0214)).covers
    assert finding(59.3234, "").digits(59.3234) == "59.32"


def test_correlation_is_undefined_without_variance() -> None:
    assert correlation.correlation([1, 1, 1, 1], [1, 2, 3, 4]) == (None, None)
    assert correlation.correlation([1, 2], [1, 2]) == (None, None)
    r, interval = correlation.correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    assert r == pytest.approx(0.8) and interval is not None and interval[0] < r < interval[1]


def test_tokenisers_differ() -> None:
    assert language.blank_split("Don't stop, Ann!") == ["don't", "stop,", "ann!"]
    assert language.words("Don't stop — it’s 5 o'clock!") == ["Don't", "stop", "it’s", "o'clock"]
    assert list(ngrams("abc", 2)) == [("a", "b"), ("b", "c")]
    assert list(ngrams("a", 2)) == []


# ---- near-duplicates ------------------------------------------------------------------------------------------------


def test_relations_are_symmetric_and_paraphrases_are_the_stricter_one() -> None:
    strict, generous = duplicates.near_duplicates(), duplicates.defensible()
    for relation in (strict, generous):
        for proverb, paraphrases in relation.items():
            assert paraphrases and proverb not in paraphrases
            assert all(proverb in relation[other] for other in paraphrases)
    assert all(paraphrases <= generous[proverb] for proverb, paraphrases in strict.items())
    assert strict["Q24"] == {"Q125"} and strict["Q53"] == {"Q160", "Q181"}
    assert "Q181" not in strict["Q160"]  # not transitive


def test_related_is_every_two_members_of_a_group() -> None:
    assert duplicates.relation_of([["a", "b", "c"], ["c", "d"]]) == {
        "a": {"b", "c"},
        "b": {"a", "c"},
        "c": {"a", "b", "d"},
        "d": {"c"},
    }


def test_every_paraphrase_has_a_reason_in_words_of_our_own(real_data: str) -> None:
    proverbs = real_corpus().proverbs
    for group in duplicates.read_lists()["paraphrases"]["groups"]:
        assert group["reason"].endswith(".") and set(group["proverbs"]) <= set(proverbs)
        reason_words = " ".join(language.words(group["reason"].lower()))
        for key in group["proverbs"]:
            runs = ngrams(language.words(proverbs[key].lower()), 4)
            assert not any(" ".join(run) in reason_words for run in runs), key


# ---- the real data --------------------------------------------------------------------------------------------------


@cache
def real_corpus() -> AnalysedTexts:
    from importlib.resources import files

    from figeval import DataContext
    from figeval.data.cache import fetch

    return corpus.read(DataContext(files("figeval.builtin.tasks.epic"), fetch))


@pytest.mark.slow
@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["part"])
def test_real_numbers(case: dict[str, Any], nltk_data: Path) -> None:
    room = importlib.import_module(f"figeval.builtin.tasks.epic.analysis.{case['part']}")
    findings = {finding.name: finding for finding in room.analyse(real_corpus()).findings}
    for name, value in case["findings"].items():
        assert findings[name].value == pytest.approx(value, abs=1e-4), name
    assert {name for name, finding in findings.items() if finding.agrees} == set(case["agree"])
    assert {name for name, finding in findings.items() if finding.agrees is False} == set(case["differ"])
    assert all(finding.definition for finding in findings.values())


@pytest.mark.slow
def test_the_papers_random_draw_is_within_the_range_of_permutations(nltk_data: Path) -> None:
    findings = [finding for finding in overlap.analyse(real_corpus()).findings if finding.name.endswith("random")]
    assert len(findings) == 6 and all(finding.covers for finding in findings)


def test_the_command_writes_what_it_prints(
    nltk_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    complete = real_corpus()
    narrative_ids = list(complete.narratives)[:40]
    proverbs = {key.partition("N")[0] for key in narrative_ids}
    small_corpus = AnalysedTexts(
        {key: complete.narratives[key] for key in narrative_ids},
        {key: text for key, text in complete.proverbs.items() if key in proverbs},
        {key: complete.spans[key] for key in narrative_ids},
    )
    monkeypatch.setattr(corpus, "read", lambda _: small_corpus)
    outcome = cli("analyze", "epic", "--output", tmp_path / "out", "--no_plots")
    printed = outcome.out
    assert outcome.code == 0
    assert "5 files in" in printed and "no WordNet: give --wordnet" in printed
    record = json.loads((tmp_path / "out" / "analysis.json").read_text(encoding="utf-8"))
    assert record["data"]["sha256"].startswith("7191a542") and record["libraries"]["nltk"]
    assert record["parts"]["Table 2: size"]["findings"][0]["published"] == "16170"
    for name, n in (
        ("per_narrative.csv", len(small_corpus.narratives)),
        ("per_proverb.csv", len(small_corpus.proverbs)),
    ):
        rows = table(tmp_path / "out" / name)
        assert len(rows) == n and "sentiment" in rows[0]
    assert all(row["definition"] for row in table(tmp_path / "out" / "tables.csv"))
    text = figeval.export([], to="latex", layout="epic_table_2", measured=tmp_path / "out")
    assert text is not None and "Measured: figeval analyze epic" in text
    vocabulary = record["parts"]["Table 2: size"]["findings"][0]["value"]
    assert f"ePiC & {vocabulary} &" in text.partition("{Measured}")[2]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_nothing_of_the_benchmark_s_text_is_written(nltk_data: Path) -> None:
    parts = [gender.analyse(SMALL_CORPUS), spans.analyse(SMALL_CORPUS)]
    written = json.dumps(store.describe_analysis(parts, "0"))
    assert not any(text in written for text in (*SMALL_CORPUS.narratives.values(), *SMALL_CORPUS.proverbs.values()))


# ---- WordNet --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_first_senses_below_event_or_process(nltk_data: Path, real_data: str) -> None:
    root = Path(real_data) / "oewn" / "nltk_root"
    if not root.is_dir():
        pytest.skip("no WordNet beside the real data")
    import nltk

    before = list(nltk.data.path)
    texts = {"Q1N1": "The weddings were fine. A table stood there.", "Q1N2": "Run quickly."}
    part = hyponyms.analyse(AnalysedTexts(texts, {"Q1": "x"}, {}), root)
    assert dict(part.details["most_frequent"]) == {"wedding": 1}  # a table is furniture, "run" no noun here
    assert part.narratives["event_process_nouns"] == {"Q1N1": 1, "Q1N2": 0}
    assert part.details["wordnet"] == "2024" and nltk.data.path == before


# ---- what the user can mend -----------------------------------------------------------------------------------------


def test_missing_nltk_data_name_package_command_and_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    with pytest.raises(
        DataError,
        match=r"punkt_tab, vader_lexicon; run `python -m nltk.downloader punkt_tab vader_lexicon`, or set NLTK_DATA",
    ):
        packages_of_nltk.require(["punkt_tab", "vader_lexicon"])
    with pytest.raises(DataError, match=r"--wordnet .* does not contain corpora/wordnet; run"):
        hyponyms.analyse(SMALL_CORPUS, tmp_path)


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    with pytest.raises(
        FigevalError, match=r"altair, vl_convert, pyphen: pip install 'figeval\[analysis\]', or .* --no_plots"
    ):
        plots.require("pyphen")


# ---- figures --------------------------------------------------------------------------------------------------------


def invented_parts() -> dict[str, Analysis]:
    """Parts with what the figures need."""
    ids = [f"Q1N{n}" for n in range(20)]
    of_proverbs = {f"Q{n}": (n - 10) / 10 for n in range(20)}
    names = ("common nouns", "hyponym tokens", "different hyponyms")
    return {
        "sentiment": Analysis(
            name="s",
            findings=[AnalysedNumber(name="r", value=0.35, definition="d", interval=(0.2, 0.5))],
            proverbs={"sentiment": of_proverbs, "narratives_sentiment": {key: x / 2 for key, x in of_proverbs.items()}},
        ),
        "reading_ease": Analysis(name="r", narratives={"reading_ease": {key: 5.0 * n for n, key in enumerate(ids)}}),
        "gender": Analysis(
            name="g",
            details={
                "mentions": {"male": 6, "female": 4},
                "narratives": {"male": 5, "female": 3, "equal": 1, "none": 1},
            },
        ),
        "hyponyms": Analysis(
            name="h",
            findings=[AnalysedNumber(name=name, value=9, definition="d") for name in names],
            details={"wordnet": "3.0", "most_frequent": [["race", 6], ["war", 3]]},
        ),
        "sizes": Analysis(name="z", narratives={"tokens": dict.fromkeys(ids, 40)}),
        "spans": Analysis(name="p", narratives={"span_words": {key: n for n, key in enumerate(ids)}}),
    }


def charts() -> dict[str, Any]:
    parts = invented_parts()
    drawn = {name: getattr(figures, name)(parts[name]) for name in ("sentiment", "reading_ease", "gender", "hyponyms")}
    return {**drawn, "lengths": figures.lengths(parts["sizes"], parts["spans"])}


@pytest.mark.parametrize("name", ["sentiment", "reading_ease", "gender", "hyponyms", "lengths"])
def test_figures_have_titles_and_units(name: str) -> None:
    spec = charts()[name].to_dict()
    assert spec["title"]["text"] and spec["title"]["subtitle"]
    titles = [axis["title"] for axis in axes(spec) if axis.get("title")]
    assert titles and any("(" in title or "Narratives" in title for title in titles)


def axes(spec: Any) -> list[dict[str, Any]]:
    """Every x and y of a chart and its layers that has a title of its own."""
    encodings = [spec["encoding"][key] for key in ("x", "y") if key in spec.get("encoding", {})]
    return encodings + [axis for layer in spec.get("layer", []) for axis in axes(layer)]


@pytest.mark.slow
def test_pictures_are_written_and_need_no_network(tmp_path: Path) -> None:
    png, svg, html = plots.save(charts()["sentiment"], tmp_path, "sentiment")
    assert png.read_bytes().startswith(b"\x89PNG") and png.stat().st_size > 10_000
    assert svg.read_text(encoding="utf-8").startswith("<svg")
    page = html.read_text(encoding="utf-8")
    assert 'src="http' not in page and "cdn.jsdelivr" not in page


@pytest.mark.system
def test_a_browser_draws_the_page(tmp_path: Path) -> None:
    *_, html = plots.save(charts()["gender"], tmp_path, "gender")
    page = elements_of(html)
    assert "<canvas" in page or "<svg" in page


@pytest.mark.parametrize(
    ("r", "verb"),
    [(0.05, "do not follow"), (0.35, "loosely follow"), (0.6, "closely follow"), (-0.4, "loosely oppose")],
)
def test_titles_say_what_was_found(r: float, verb: str) -> None:
    assert figures.correlation_verb(r) == verb


def test_the_fourth_figure_needs_wordnet(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = invented_parts()
    order = [
        parts[key] for key in ("sizes", "sizes", "spans", "sentiment", "reading_ease", "gender", "hyponyms", "sizes")
    ]
    assert set(analyze_epic.figures(order)) == {"sentiment", "gender", "reading_ease", "hyponyms"}
    order[6] = Analysis(name="h", left_out="no WordNet")
    order[4] = Analysis(name="r", left_out="no pyphen")
    assert set(analyze_epic.figures(order)) == {"sentiment", "gender", "lengths"}


# ---- frozen questions ------------------------------------------------------------------------------------------------

CORPUS = epic_rows.Corpus({"Q1N10": "A tale."}, {"Q2": "Still WATERS run deep", "Q1": "Look before you leap"})


def test_items_get_their_texts() -> None:
    question = epic_rows.item_row({"id": "Q1N10", "options": ["Q2", "Q1"], "gold": 1}, CORPUS, "item 1")
    assert question["options"] == ("Still WATERS run deep", "Look before you leap")
    assert question["options_lower"] == ("still waters run deep", "look before you leap")
    assert (question["gold"], question["proverb_id"], question["option_ids"]) == (1, "Q1", ("Q2", "Q1"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": None}, "item 1: no options"),
        ({"id": "Q1N11"}, "item 1: the dataset has no 'Q1N11'"),
        ({"options": ["Q3", "Q1"]}, "item 1: the dataset has no 'Q3'"),
        ({"gold": 0}, "gold 0 does not point to Q1"),
        ({"gold": 2}, "gold 2 does not point to Q1"),
        ({"gold": -1}, "gold -1 does not point to Q1"),
        ({"gold": "1"}, "gold '1' does not point to Q1"),
        ({"options": [], "gold": 0}, "gold 0 does not point to Q1"),
    ],
)
def test_a_wrong_item_is_one_line(changes: dict[str, Any], message: str) -> None:
    item = {"id": "Q1N10", "options": ["Q2", "Q1"], "gold": 1, **changes}
    with pytest.raises(DataError, match=message):
        epic_rows.item_row({key: value for key, value in item.items() if value is not None}, CORPUS, "item 1")


def test_missing_items_say_how_to_make_them(real_data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(epic_rows.ITEMS, "mcq", "no_such_items.jsonl")
    with pytest.raises(DataError, match="figeval build epic-mcq"):
        read_source("epic:mcq")


# ---- diagnosis of stored runs ----------------------------------------------------------------------------------------

CHANCES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=5)

PROVERB_IDS = ("Q1", "Q2", "Q3", "Q4")


def row(**fields: Any) -> dict[str, Any]:
    return {"tied": 1, "pred": 0, **fields}


def run_of(*answers_of_questions: tuple[str, dict[str, float] | None], model: str = "m") -> AnsweredRun:
    """Answers to narratives of these gold proverbs."""
    questions, rows = {}, {}
    for number, (gold, picks) in enumerate(answers_of_questions):
        key = f"{gold}N{number}"
        questions[key] = ProverbQuestion(gold, PROVERB_IDS)
        rows[key] = ProverbAnswer(gold, (picks or {}).get(gold, 0.0), picks)
    return AnsweredRun(model, questions, rows)


# ---- stored rows ----------------------------------------------------------------------------------------------------


def test_one_best_is_the_prediction() -> None:
    assert answers.picks(row(pred=2, top=[[2, 0.5], [0, 0.1]]), PROVERB_IDS) == {"Q3": 1.0}


def test_tied_best_share_the_answer() -> None:
    assert answers.picks(row(tied=2, scores=[0.5, 0.1, 0.5, None]), PROVERB_IDS) == {"Q1": 0.5, "Q3": 0.5}
    assert answers.picks(row(tied=2, top=[[1, 0.5], [3, 0.5], [0, 0.2]]), PROVERB_IDS) == {"Q2": 0.5, "Q4": 0.5}
    assert answers.picks(row(tied=2, scores=["inf", 3.0, "inf", "-inf"]), PROVERB_IDS) == {"Q1": 0.5, "Q3": 0.5}


def test_background_candidates_are_no_answers() -> None:
    """The unseen test stores the best ten of all 250; its answer is the best of its own 100."""
    stored = row(tied=2, pred=0, top=[[9, 0.9], [0, 0.5], [2, 0.5]])
    assert answers.picks(stored, PROVERB_IDS) == {"Q1": 0.5, "Q3": 0.5}


def test_all_tied_are_known_although_only_ten_are_stored() -> None:
    many = [f"Q{n}" for n in range(250)]
    everything = answers.picks(row(tied=250, top=[[n, 0.0] for n in range(10)]), many)
    assert everything == dict.fromkeys(many, 1 / 250)


def test_a_tie_that_is_not_wholly_stored_is_unknown() -> None:
    many = [f"Q{n}" for n in range(250)]
    stored = row(tied=12, top=[[n, 0.5] for n in range(10)])
    assert answers.picks(stored, many) is None
    picks = answers.picks({**stored, "all_scores": [0.5] * 12 + [0.0] * 238}, many)
    assert picks == {f"Q{n}": 1 / 12 for n in range(12)}


def test_rows_of_other_data_are_refused() -> None:
    questions = {"Q2N1": ProverbQuestion("Q2", PROVERB_IDS)}
    assert answers.find_question({"id": "Q2N1", "gold": [1]}, questions, "t").gold == "Q2"
    for wrong in ({"id": "Q2N9", "gold": [1]}, {"id": "Q2N1", "gold": 0}, {"id": "Q2N1", "gold": 9}):
        with pytest.raises(DataError, match="does not fit the data of this version"):
            answers.find_question(wrong, questions, "t")


# ---- accuracy -------------------------------------------------------------------------------------------------------


@given(CHANCES)
def test_number_right_is_the_sum_of_independent_draws(chances: list[float]) -> None:
    expected = np.zeros(len(chances) + 1)
    for outcome in product((0, 1), repeat=len(chances)):
        weights = [chance if outcome_bit else 1 - chance for outcome_bit, chance in zip(outcome, chances, strict=True)]
        expected[sum(outcome)] += np.prod(weights)
    assert accuracy.number_right(chances) == pytest.approx(expected)


def test_spread_counts_proverbs() -> None:
    assert list(accuracy.spread({"a": [1, 1], "b": [0, 1], "c": [0]})) == [1, 1, 1]
    assert list(accuracy.spread({"a": [0.5, 1]})) == [0, 0.5, 0.5]  # a tie is a fraction of two cells


def test_near_duplicates_count_if_they_are_listed() -> None:
    run = run_of(("Q1", {"Q2": 1.0}), ("Q1", {"Q1": 1.0}), ("Q1", {"Q3": 1.0}), ("Q4", {"Q3": 1.0}))
    accepted = {"Q1": frozenset({"Q2"}), "Q2": frozenset({"Q1"})}
    plain, aware = accuracy.tolerant_accuracy(run, {}), accuracy.tolerant_accuracy(run, accepted)
    assert (plain.score.value, aware.score.value) == (0.25, 0.5)
    assert aware.score.clusters == 2 and aware.unknown == 0
    assert (plain.chance, aware.chance) == (0.25, (3 * 2 + 1) / 16)


def test_a_tie_with_a_paraphrase_counts_whole() -> None:
    accepted = {"Q1": frozenset({"Q2"})}
    answer = ProverbAnswer("Q1", 1 / 3, {"Q1": 1 / 3, "Q2": 1 / 3, "Q3": 1 / 3})
    assert accuracy.credit_of(answer, accepted) == pytest.approx(2 / 3)
    assert accuracy.credit_of(answer, {}) == pytest.approx(1 / 3)


def test_unknown_ties_are_left_out_and_counted() -> None:
    run = run_of(("Q1", None), ("Q3", None), ("Q1", {"Q1": 1.0}))
    aware = accuracy.tolerant_accuracy(run, {"Q1": frozenset({"Q2"})})
    assert (aware.unknown, aware.score.n) == (1, 2)  # of Q3 nothing else would be accepted: its 0 is known


# ---- confusion ------------------------------------------------------------------------------------------------------


def test_confusions_are_sorted_and_named() -> None:
    run = run_of(("Q24", {"Q125": 1.0}), ("Q24", {"Q125": 0.5, "Q3": 0.5}), ("Q4", {"Q4": 1.0}), ("Q4", None))
    first, second = confusion.confusions(run)
    assert (first.gold, first.predicted, first.count, first.n) == ("Q24", "Q125", 1.5, 2)
    assert first.paraphrase and first.defensible and not second.defensible
    assert confusion.most_taken(run) == [("Q125", 1.5), ("Q3", 0.5)]


# ---- two runs -------------------------------------------------------------------------------------------------------


def test_two_runs_cell_by_cell() -> None:
    right, wrong = {"Q1": 1.0}, {"Q2": 1.0}
    a = run_of(("Q1", right), ("Q1", right), ("Q3", {"Q3": 1.0}), model="a")
    b = run_of(("Q1", right), ("Q1", wrong), ("Q3", {"Q4": 1.0}), model="b")
    comparison = versus.compare_runs(a, b)
    assert (comparison.n, comparison.proverbs) == (3, 2)
    assert comparison.cells.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert (comparison.both, comparison.only_a, comparison.only_b, comparison.neither) == (1, 2, 0, 0)
    assert comparison.same == pytest.approx(1 / 3)
    assert comparison.r is None  # two proverbs are too few


@pytest.mark.slow
@given(st.lists(st.tuples(CHANCES, st.randoms(use_true_random=False)), min_size=1, max_size=4))
def test_the_heat_map_holds_every_proverb_once(groups: list[Any]) -> None:
    answer_table = [
        [
            (ProverbAnswer("Q1", value, None), ProverbAnswer("Q1", other.choice([0.0, 0.5, 1.0]), None))
            for value in values
        ]
        for values, other in groups
    ]
    cells = versus.heat_map(answer_table)
    assert cells.sum() == pytest.approx(len(groups))
    assert cells.sum(axis=1) == pytest.approx(
        accuracy.spread(
            {str(n): [a.right for a, _ in proverb_answers] for n, proverb_answers in enumerate(answer_table)}
        )
    )


def test_unmatched_narratives_are_left_out() -> None:
    a = run_of(("Q1", {"Q1": 1.0}), ("Q2", {"Q2": 1.0}))
    b = AnsweredRun("b", a.questions, {"Q1N0": a.answers["Q1N0"]})
    assert versus.compare_runs(a, b).n == 1


@pytest.mark.slow
def test_the_heat_map_is_drawn(tmp_path: Path) -> None:
    run = run_of(*((key, {key: 1.0}) for key in PROVERB_IDS), *((key, {"Q1": 1.0}) for key in PROVERB_IDS))
    chart = versus.chart(versus.compare_runs(run, run))
    assert chart.to_dict()["title"]["text"] == "Neither model gets a narrative right for 0 of 4 proverbs"
    png, svg, html = plots.save(chart, tmp_path, "heat_map")
    assert png.read_bytes().startswith(b"\x89PNG") and html.stat().st_size > 100_000
    assert svg.stat().st_size > 1_000


# ---- building questions ----------------------------------------------------------------------------------------------

EPIC_FOLDER = files("figeval.builtin.tasks.epic")
KINDS = ("mcq", "mcq_random")


def check(line):
    """Five different proverbs, the narrative's own exactly once and where `gold` says."""
    assert len(set(line["options"])) == 5
    assert line["options"].index(line["id"].partition("N")[0]) == line["gold"]


# ---- the frozen files ----------------------------------------------------------------------------------------------


def frozen(kind):
    return [json.loads(line) for line in (EPIC_FOLDER / f"{kind}_items.jsonl").read_text().splitlines()], json.loads(
        (EPIC_FOLDER / f"{kind}_items.json").read_text()
    )


# ---- the page ------------------------------------------------------------------------------------------------------


PAGE = (EPIC_FOLDER / "MCQ.md").read_text(encoding="utf-8").splitlines()


def rows_of(heading):
    """The cells of each row of the table on MCQ.md that begins with these cells."""
    start = next(number for number, line in enumerate(PAGE) if line.startswith(f"| {heading}"))
    for line in PAGE[start + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


# ---- the arithmetic ------------------------------------------------------------------------------------------------


def test_probabilities_do_not_depend_on_a_scorers_scale():
    scores = np.array([[0.1, 0.5, 0.9, 0.2]])
    assert distractors.probabilities(scores) == pytest.approx(distractors.probabilities(scores * 0.01 + 7))
    z = (scores - scores.mean()) / scores.std()
    assert distractors.probabilities(scores) == pytest.approx(np.exp(z) / np.exp(z).sum())


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, -5e8])
def test_a_scorer_without_preference_is_uniform(value):
    assert distractors.probabilities(np.full((2, 7), value)).tolist() == [[1 / 7] * 7] * 2


def test_nan_stays_nan_and_the_others_share_the_rest():
    shares = distractors.probabilities(np.array([[1.0, np.nan, 3.0], [np.nan] * 3]))
    assert np.isnan(shares).tolist() == [[False, True, False], [True] * 3]
    assert shares[0, [0, 2]].sum() == pytest.approx(1)


def test_a_nan_of_one_scorer_is_answered_by_the_others():
    first, second = np.array([[1.0, 2.0, np.nan]]), np.array([[5.0, 5.0, 5.0]])
    mean = distractors.average_probabilities({"one": first, "two": second})
    assert mean[0, 2] == pytest.approx(1 / 3)
    assert mean[0, :2] == pytest.approx((distractors.probabilities(first)[0, :2] + 1 / 3) / 2)
    with pytest.raises(ModelError, match=r"all scorers \(one\) give NaN for 1 pairs"):
        distractors.average_probabilities({"one": first})


PROBABILITY = np.array([[0.30, 0.20, 0.15, 0.10, 0.09, 0.06, 0.05, 0.05]])


def test_what_is_probable_or_as_probable_as_the_gold_one_is_cheap():
    high, again, close, too = distractors.adversarial(PROBABILITY, np.array([4]))
    assert (np.argsort(high[0], kind="stable") == np.arange(8)).all()
    assert np.argsort(close[0], kind="stable")[:3].tolist() == [4, 3, 5]  # itself, then .10 and .06 around .09
    assert (high == again).all() and (close == too).all()


def test_random_costs_of_a_narrative_depend_on_its_name_alone():
    first, other = distractors.uniform(7, ["a", "b"], 9), distractors.uniform(7, ["b"], 9)
    assert all((row[1] == alone[0]).all() for row, alone in zip(first, other, strict=True))
    assert len({row.tobytes() for cost in first for row in cost}) == 2 * distractors.SLOTS


def test_in_each_block_every_proverb_is_right_once():
    gold = np.array([2, 0, 1, 1, 2, 0])
    assert [block.tolist() for block in distractors.blocks(gold)] == [[1, 2, 0], [5, 3, 4]]
    with pytest.raises(DataError, match="proverbs have 1 to 2 narratives"):
        distractors.blocks(np.array([0, 0, 1]))


@st.composite
def problems(draw):
    """Scores of two narratives for each of 20 to 24 proverbs, some of which are near-duplicates."""
    size = draw(st.integers(20, 24))
    groups = draw(st.lists(st.lists(st.sampled_from("abc"), min_size=2, max_size=3, unique=True), max_size=2))
    gold = np.array(draw(st.permutations([*range(size), *range(size)])))
    seed = draw(st.integers(0, 2**32 - 1))
    scores = np.random.default_rng(seed).choice([0.0, 0.1, 0.2, 0.5], (2 * size, size))
    return scores, gold, distractors.alike_matrix("abcdefghijklmnopqrstuvwx"[:size], groups)


@pytest.mark.slow
@given(problems())
def test_every_proverb_is_offered_equally_often_wherever_it_is_right(problem):
    scores, gold, alike = problem
    wrong = distractors.assign_distractors(
        distractors.adversarial(distractors.probabilities(scores), gold), gold, alike
    )
    for right, wrong_options in zip(gold, wrong, strict=True):
        together = [right, *wrong_options]
        assert len(set(together)) == 5
        assert alike[np.ix_(together, together)].sum() == 5  # each is like itself only
    for block in distractors.blocks(gold):
        for slot in range(distractors.SLOTS):
            assert sorted(wrong[narrative][slot] for narrative in block) == sorted(range(len(alike)))


def test_the_cheapest_assignment_is_taken():
    """Each narrative likes one proverb, another one for each: all get what they like."""
    size = 9
    likes = [(np.arange(size) + shift) % size for shift in (1, 2, 3, 4)]
    costs = [np.where(np.arange(size) == preferred[:, None], 0.0, 1.0) for preferred in likes]
    wrong = distractors.assign_distractors(costs, np.arange(size), np.eye(size, dtype=bool))
    assert wrong == [[(right + shift) % size for shift in (1, 2, 3, 4)] for right in range(size)]


def test_too_many_near_duplicates_are_one_line():
    with pytest.raises(DataError, match="too many proverbs are near-duplicates"):
        distractors.assign_distractors([np.zeros((3, 3))] * 4, np.arange(3), np.ones((3, 3), dtype=bool))


def test_gold_picked_counts_ties_by_expectation_and_nan_as_not_picked():
    scores = np.array([[3.0, 1, 2], [1, 1, 0], [0, 5, 1], [np.nan, 0, 0]])
    assert distractors.share_picked(scores, [[0, 1, 2]] * 4, [0, 1, 2, 1]) == (1.5 / 4, 1)


# ---- the command ---------------------------------------------------------------------------------------------------


class Embedder:
    """Unit vectors by the first letter of a text; counts what it was fitted to."""

    def fit(self, examples):
        self.fitted = sum(1 for _ in examples)

    def embed(self, requests):
        return np.eye(26)[[ord(request.text[0]) - ord("a") for request in requests]] + 0.01

    def fingerprint(self):
        return "letters"


class Scorer:
    """Shared letters."""

    def score_pairs(self, requests):
        return [len(set(request.left) & set(request.right)) for request in requests]

    def fingerprint(self):
        return "shared letters"


@pytest.fixture
def invented(monkeypatch):
    """Forty proverbs with five narratives each, two fake scorers and one that can do neither."""
    proverbs = tuple(f"{chr(97 + i % 26)}{i}" for i in range(40))
    ids = tuple(f"Q{i}N{n}" for i in range(40) for n in range(5))
    narratives = tuple(f"{proverbs[i][0]} story {n}" for i in range(40) for n in range(5))
    gold = tuple(i for i in range(40) for _ in range(5))
    material = Material(ids, narratives, gold, tuple(f"Q{i}" for i in range(40)), proverbs)
    models = {"letters": Embedder(), "shared": Scorer(), "mute": object()}
    monkeypatch.setattr(build, "read_material", lambda: material)
    monkeypatch.setattr(build, "read_lists", lambda: {"groups": [["Q0", "Q26"], ["Q1", "Q2", "Q3"]]})
    monkeypatch.setattr(build, "open_scorer", lambda name: Model(name, name, models[name]))
    return material


def run(folder, *options):
    return CliRunner().invoke(build.epic_mcq, ["--output", str(folder), *options], catch_exceptions=False)


def test_the_command_writes_items_and_records(invented, tmp_path):
    result = run(tmp_path / "new", "--scorers", "letters, shared", "--seed", "7")
    assert result.exit_code == 0 and "mcq_random_items.jsonl  200 items" in result.output
    for kind in KINDS:
        content = (tmp_path / "new" / f"{kind}_items.jsonl").read_bytes()
        record = json.loads((tmp_path / "new" / f"{kind}_items.json").read_text())
        assert record["sha256"] == hashlib.sha256(content).hexdigest() and record["items"] == 200
        assert (record["seed"], record["version"]) == (7, 2)
        assert record["scorers"] == [
            {"name": "letters", "fingerprint": "letters"},
            {"name": "shared", "fingerprint": "shared letters"},
        ]
        shares = [share["gold_picked"] for share in record["audit"]["scorers"].values()]
        assert record["audit"]["mean"] == pytest.approx(sum(shares) / 2, abs=1e-6) and record["audit"]["chance"] == 0.2
        lines = list(map(json.loads, content.decode().splitlines()))
        assert sorted(line["id"] for line in lines) == sorted(invented.ids)
        for line in lines:
            assert set(line) == {"id", "options", "gold"}
            check(line)
            assert not {"Q0", "Q26"} <= set(line["options"]) and len({"Q1", "Q2", "Q3"} & set(line["options"])) <= 1


def test_the_same_seed_gives_the_same_files_and_another_seed_other_orders(invented, tmp_path):
    for folder, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        run(tmp_path / folder, "--scorers", "letters,shared", "--seed", seed)
    a, b, c = ({path.name: path.read_bytes() for path in (tmp_path / f).iterdir()} for f in "abc")
    assert a == b and a.keys() == c.keys()
    first, other = (
        {line["id"]: line["options"] for line in map(json.loads, f["mcq_items.jsonl"].splitlines())} for f in (a, c)
    )
    assert {key: set(options) for key, options in first.items()} == {
        key: set(options) for key, options in other.items()
    }
    assert first != other  # the seed moves no distractor, only their order


def test_scorers_are_fitted_to_the_narratives(invented):
    model = build.open_scorer("letters")
    assert build.score_all(model, invented).shape == (200, 40)
    assert model.backend.fitted == 200


def test_what_the_user_can_mend(invented, tmp_path):
    with pytest.raises(CapabilityError, match=r"mute can neither embed nor score pairs; leave it out of --scorers"):
        run(tmp_path, "--scorers", "mute")
    with pytest.raises(FigevalError, match="--scorers is empty"):
        run(tmp_path, "--scorers", " , ")
    (tmp_path / "file").write_text("")
    with pytest.raises(FigevalError, match=r"cannot write .* choose another --output"):
        run(tmp_path / "file", "--scorers", "letters")


@pytest.mark.slow
@pytest.mark.parametrize("column", [0, 1], ids=KINDS)
@pytest.mark.wing("audit")
def test_the_audit_on_the_page_is_that_of_the_items(column, real_data):
    from figeval.wings.audit.audit import audit

    harness = Harness()
    item_audit = audit(harness.catalogue.tasks.get(f"epic_{KINDS[column]}"), harness)
    table_rows = list(rows_of("blind rule | what it knows"))
    assert [(row[0], row[1]) for row in table_rows] == [
        (finding.rule.name, finding.rule.knows) for finding in item_audit.findings
    ]
    for row, finding in zip(table_rows, item_audit.findings, strict=True):
        numbers = [float(number) for number in re.findall(r"\.\d+", row[2 + column])]
        assert numbers[0] == pytest.approx(finding.score.value, abs=5.1e-4), finding.rule.name
        assert numbers[1:] == pytest.approx([finding.score.low, finding.score.high], abs=0.01), finding.rule.name


TELLING_RULE = "spelt least like any other"  # in adversarial items: the page says by how much

MAY_BE_WORSE = ("most like the others", "spelt most like another", "logistic regression on length and frequency")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.wing("audit")
def test_no_rule_that_reads_options_only_beats_chance(kind, real_data):
    """But for the spelling of adversarial options, and for rules that know which proverbs are used up."""
    from figeval.wings.audit.audit import audit
    from figeval.wings.audit.blind_rules import ALL, HALF, ITEM

    harness = Harness()
    item_audit = audit(harness.catalogue.tasks.get(f"epic_{kind}"), harness)
    floors = [finding for finding in item_audit.findings if finding.rule.knows in (ITEM, ALL, HALF)]
    assert len(floors) == 18
    for floor in floors:
        if kind == "mcq" and floor.rule.name == TELLING_RULE:
            assert floor.score.low > 0.2
            continue
        worse = floor.score.value < 0.2 and floor.rule.name in MAY_BE_WORSE
        assert worse or not floor.is_off, floor.rule.name


def test_strength_is_measured_by_ranks():
    strengths = distractors.strength(
        np.linspace(1, 0, 20)[None].repeat(2, 0), [[0, 1, 2, 12, 13], [3, 0, 11, 12, 19]], [0, 3]
    )
    assert strengths == {"median_rank": (8 + 12.5) / 2, "best_two_among_ten": 0.75}


@pytest.mark.slow
def test_the_audit_can_be_recomputed(real_data):
    """With the two scorers that need no network; the mean of three is not theirs to give."""
    material = build.read_material()
    scores = {name: build.score_all(build.open_scorer(name), material) for name in ("tfidf", "glove")}
    for kind in KINDS:
        lines, record = frozen(kind)
        recomputed = build.audit(scores, material, lines)
        for name in scores:
            assert recomputed["scorers"][name] == record["audit"]["scorers"][name]


def test_the_random_items_can_be_rebuilt(real_data):
    """They depend on the seed alone."""
    material = build.read_material()
    lines, record = frozen("mcq_random")
    flat = {"none": np.zeros((len(material.ids), len(material.proverbs)))}
    wrong = build.choose_distractors(material, flat, record["seed"])["mcq_random"]
    assert build.items(material, wrong, record["seed"]) == lines
