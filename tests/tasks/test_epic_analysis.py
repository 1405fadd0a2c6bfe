"""ePiC's data analysis: definitions on small corpora, numbers on the real one, figures in a real browser."""

from __future__ import annotations

import csv
import importlib
import json
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval import DataError, FigevalError
from figeval.builtin.tasks.epic import correlation, duplicates
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
from figeval.cli.main import main
from figeval.io import plots
from figeval.language import nltk_data as packages_of_nltk
from figeval.metrics.texts import ngrams
from tests.browser import elements_of

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
    nltk_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    main_ok("analyze", "epic", "--output", str(tmp_path / "out"), "--no_plots")
    printed = capsys.readouterr().out
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


def main_ok(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


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
