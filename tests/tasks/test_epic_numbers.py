"""ePiC in numbers: the analysis of its data, the diagnosis of runs, and how distractors are chosen."""

from __future__ import annotations

import csv
import json
import sys
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval import DataContext, DataError
from figeval.builtin.tasks.epic import correlation, distractors, duplicates, epic_rows
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
)
from figeval.builtin.tasks.epic.diagnosis import accuracy, answers, confusion, versus
from tests.browser import elements_of
from tests.cli.conftest import Cli
from tests.sources import read_rows as read_source

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = json.loads((ROOT / "golden" / "tasks" / "epic_analysis.json").read_text(encoding="utf-8"))
WORDS = st.frozensets(st.sampled_from("abcdef"))


def corpus_of(folder: Path, *records: tuple[str, str, str, list[tuple[str, str]]]) -> Any:
    """The texts of these records: id of the narrative, proverb, narrative, and pairs of spans."""
    rows = [
        {
            "pk": key,
            "fields": {
                "quote": proverb,
                "narrative": narrative,
                **{f"span_quote_{n}": pairs[n - 1][0] if n <= len(pairs) else "" for n in range(1, 6)},
                **{f"span_narrative_{n}": pairs[n - 1][1] if n <= len(pairs) else "" for n in range(1, 6)},
            },
        }
        for key, proverb, narrative, pairs in records
    ]
    (folder / "full_dataset.json").write_text(json.dumps(rows))
    return corpus.read(DataContext(folder, lambda _benchmark, path: folder / path))


@pytest.fixture
def small_corpus(tmp_path: Path) -> Any:
    return corpus_of(
        tmp_path,
        ("Q1N1", "Run a race", "He ran. She ran too, but he won!", [("Run", "HE ran"), ("Run", "ran")]),
        ("Q1N2", "Run a race", "Nobody ran.", [("a race", "ran")]),
        ("Q2N1", "A dog is a dog", "Her dog  barked; it's fine.", [("dog", "Her dog"), ("A dog", "dog  barked")]),
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


def test_spans_of_a_small_corpus(small_corpus: Any) -> None:
    numbers = {finding.name: finding.value for finding in spans.analyse(small_corpus).findings}
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


def test_gendered_words_are_counted_as_words(small_corpus: Any) -> None:
    analysis = gender.analyse(small_corpus)
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


def test_correlation_is_undefined_without_variance() -> None:
    assert correlation.correlation([1, 1, 1, 1], [1, 2, 3, 4]) == (None, None)
    assert correlation.correlation([1, 2], [1, 2]) == (None, None)
    r, interval = correlation.correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    assert r == pytest.approx(0.8) and interval is not None and interval[0] < r < interval[1]


def test_tokenisers_differ() -> None:
    assert language.blank_split("Don't stop, Ann!") == ["don't", "stop,", "ann!"]
    assert language.words("Don't stop — it’s 5 o'clock!") == ["Don't", "stop", "it’s", "o'clock"]


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
    proverbs = {row["proverb_id"]: row["proverb"] for row in read_source("epic:retrieval_all")}
    for group in duplicates.read_lists()["paraphrases"]["groups"]:
        assert group["reason"].endswith(".") and set(group["proverbs"]) <= set(proverbs)
        reason_words = " ".join(language.words(group["reason"].lower()))
        for key in group["proverbs"]:
            words = language.words(proverbs[key].lower())
            assert not any(" ".join(words[n : n + 4]) in reason_words for n in range(len(words) - 3)), key


# ---- the command on the real data ------------------------------------------------------------------------------------

PARTS = {  # of the golden file → as the command names them
    "sizes": "Table 2: size",
    "overlap": "Table 3: n-grams shared with the proverb",
    "spans": "Spans and texts",
    "sentiment": "Sentiment (VADER)",
    "reading": "Reading ease",
    "gender": "Gender (word-list based, not coreference)",
}


@pytest.mark.slow
def test_the_command_writes_what_it_prints(nltk_data: Path, real_data: str, tmp_path: Path, cli: Cli) -> None:
    out, root = tmp_path / "out", Path(real_data) / "oewn" / "nltk_root"
    wordnet = ("--wordnet", root) if root.is_dir() else ()
    outcome = cli("benchmark", "analyze", "epic", "--output", out, *wordnet)
    assert outcome.code == 0
    for part in ("Hate speech: left out", "Left out: coreference", *(["Left out: verbs"] if wordnet else [])):
        assert part in outcome.out
    assert "17 files in" in outcome.out and "within the interval" in outcome.out
    record = json.loads((out / "analysis.json").read_text(encoding="utf-8"))
    assert record["data"]["epic/full_dataset.json"].startswith("7191a542") and record["libraries"]["nltk"]
    for case in GOLDEN:
        findings = {finding["name"]: finding for finding in record["parts"][PARTS[case["part"]]]["findings"]}
        for name, value in case["findings"].items():
            assert findings[name]["value"] == pytest.approx(value, abs=1e-4), name
        assert {name for name, finding in findings.items() if finding["agrees"]} == set(case["agree"])
        assert {name for name, finding in findings.items() if finding["agrees"] is False} == set(case["differ"])
        assert all(finding["definition"] for finding in findings.values())
        for name, finding in findings.items():
            if name.endswith("random"):  # the paper's draw is within the range of permutations
                digits = len(finding["published"].partition(".")[2])
                low, high = (round(bound, digits) for bound in finding["interval"])
                assert low <= float(finding["published"]) <= high, name
    assert record["parts"][PARTS["sizes"]]["findings"][0]["published"] == "16170"
    for name, n in (("per_narrative.csv", 2500), ("per_proverb.csv", 250)):
        rows = table(out / name)
        assert len(rows) == n and "sentiment" in rows[0]
    assert all(row["definition"] for row in table(out / "tables.csv"))
    text = figeval.export([], to="latex", layout="epic_table_2", measured=out)
    assert text is not None and "Measured: figeval benchmark analyze epic" in text
    assert "ePiC & 16170 &" in text.partition("{Measured}")[2]
    text = figeval.export([], to="latex", layout="epic_table_3", measured=out)
    assert text is not None and text.count("same proverb & 0.107") == text.count("different proverbs & 0.098") == 2
    check_pictures(out, {"sentiment", "gender", "reading_ease", "hyponyms" if wordnet else "lengths"})


def check_pictures(folder: Path, names: set[str]) -> None:
    """Pictures of these names, with titles and units, which need no network."""
    assert {path.stem for path in folder.glob("*.png")} == names
    for name in names:
        png, svg = (folder / f"{name}.{ending}" for ending in ("png", "svg"))
        assert png.read_bytes().startswith(b"\x89PNG") and png.stat().st_size > 10_000
        assert svg.read_text(encoding="utf-8").startswith("<svg")
        page = (folder / f"{name}.html").read_text(encoding="utf-8")
        assert 'src="http' not in page and "cdn.jsdelivr" not in page
        spec = json.JSONDecoder().raw_decode(page, page.rindex('{"config"'))[0]
        assert spec["title"]["text"] and spec["title"]["subtitle"]
        titles = [axis["title"] for axis in axes(spec) if axis.get("title")]
        assert titles and any("(" in title or "Narratives" in title for title in titles)


@pytest.mark.system
def test_a_browser_draws_the_page_and_the_fourth_figure_needs_wordnet(
    nltk_data: Path, tmp_path: Path, cli: Cli
) -> None:
    assert "no WordNet: give --wordnet" in cli("benchmark", "analyze", "epic", "--output", tmp_path / "out").out
    check_pictures(tmp_path / "out", {"sentiment", "gender", "reading_ease", "lengths"})
    page = elements_of(tmp_path / "out" / "gender.html")
    assert "<canvas" in page or "<svg" in page


def axes(spec: Any) -> list[dict[str, Any]]:
    """Every x and y of a chart and its layers that has a title of its own."""
    encodings = [spec["encoding"][key] for key in ("x", "y") if key in spec.get("encoding", {})]
    return encodings + [axis for layer in spec.get("layer", []) for axis in axes(layer)]


@pytest.mark.slow
def test_reading_ease_is_left_out_without_its_library(
    nltk_data: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("altair", "vl_convert", "pyphen"):
        monkeypatch.setitem(sys.modules, name, None)
    command = ("benchmark", "analyze", "epic", "--output", tmp_path / "out")
    assert "figeval[analysis]" in cli(*command).complaint
    printed = " ".join(cli(*command, "--no_plots").out.split())
    assert "Reading ease: left out" in printed and "pip install 'figeval[analysis]'" in printed


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_nothing_of_the_benchmark_s_text_is_written(nltk_data: Path, small_corpus: Any, tmp_path: Path) -> None:
    parts = [gender.analyse(small_corpus), spans.analyse(small_corpus)]
    written = " ".join(file.read_text() for file in analyze_epic.write(tmp_path, small_corpus, parts, "0"))
    assert not any(text in written for text in (*small_corpus.narratives.values(), *small_corpus.proverbs.values()))


# ---- WordNet --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_first_senses_below_event_or_process(nltk_data: Path, real_data: str, tmp_path: Path) -> None:
    root = Path(real_data) / "oewn" / "nltk_root"
    if not root.is_dir():
        pytest.skip("no WordNet beside the real data")
    import nltk

    before = list(nltk.data.path)
    texts = {"Q1N1": "The weddings were fine. A table stood there.", "Q1N2": "Run quickly."}
    part = hyponyms.analyse(corpus_of(tmp_path, *((key, "x", text, []) for key, text in texts.items())), root)
    assert dict(part.details["most_frequent"]) == {"wedding": 1}  # a table is furniture, "run" no noun here
    assert part.narratives["event_process_nouns"] == {"Q1N1": 1, "Q1N2": 0}
    assert part.details["wordnet"] == "2024" and nltk.data.path == before


# ---- what the user can mend -----------------------------------------------------------------------------------------


def test_missing_nltk_data_name_package_command_and_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, small_corpus: Any, cli: Cli
) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    packages = ("punkt_tab", "vader_lexicon", "stopwords")
    cure = f"{', '.join(packages)}; run `python -m nltk.downloader {' '.join(packages)}`, or set NLTK_DATA"
    assert cure in cli("benchmark", "analyze", "epic").complaint
    with pytest.raises(DataError, match=r"--wordnet .* does not contain corpora/wordnet; run"):
        hyponyms.analyse(small_corpus, tmp_path)


@pytest.mark.parametrize(
    ("r", "verb"),
    [(0.05, "do not follow"), (0.35, "loosely follow"), (0.6, "closely follow"), (-0.4, "loosely oppose")],
)
def test_titles_say_what_was_found(r: float, verb: str) -> None:
    assert figures.correlation_verb(r) == verb


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
    with pytest.raises(DataError, match="figeval benchmark build epic-mcq"):
        read_source("epic:mcq")


# ---- diagnosis of stored runs ----------------------------------------------------------------------------------------

CHANCES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=5)

PROVERB_IDS = ("Q1", "Q2", "Q3", "Q4")


def row(**fields: Any) -> dict[str, Any]:
    return {"tied": 1, "pred": 0, **fields}


def run_of(*answers_of_questions: tuple[str, dict[str, float] | None], model: str = "m") -> answers.AnsweredRun:
    """Answers to narratives of these gold proverbs."""
    questions, rows = {}, {}
    for number, (gold, picks) in enumerate(answers_of_questions):
        key = f"{gold}N{number}"
        questions[key] = answers.ProverbQuestion(gold, PROVERB_IDS)
        rows[key] = answers.ProverbAnswer(gold, (picks or {}).get(gold, 0.0), picks)
    return answers.AnsweredRun(model, questions, rows)


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
    questions = {"Q2N1": answers.ProverbQuestion("Q2", PROVERB_IDS)}
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
    answer = answers.ProverbAnswer("Q1", 1 / 3, {"Q1": 1 / 3, "Q2": 1 / 3, "Q3": 1 / 3})
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
            (answers.ProverbAnswer("Q1", value, None), answers.ProverbAnswer("Q1", other.choice([0.0, 0.5, 1.0]), None))
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
    b = answers.AnsweredRun("b", a.questions, {"Q1N0": a.answers["Q1N0"]})
    assert versus.compare_runs(a, b).n == 1


# ---- distractors ---------------------------------------------------------------------------------------------------


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
    wrong = distractors.assign_distractors([scores, scores, -scores, scores**2], gold, alike)
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


def test_strength_counts_ties_by_expectation_and_ranks_among_all_proverbs():
    scores = np.array([[3.0, 1, 2, 9], [1, 1, 0, 9], [0, 5, 1, 9], [np.nan, 0, 0, 9]])
    right = np.array([[0], [1], [2], [1]])
    wrong = np.array([[1, 2], [0, 2], [0, 1], [0, 2]])
    assert distractors.strength(scores, right, wrong) == {
        "highest": 1.5 / 4,
        "lowest": 0,
        "nan": 1,
        "median_rank_right": 2.0,
        "median_rank_wrong": 2.5,
    }
