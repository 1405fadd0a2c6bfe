"""Metrics of written texts and lexical models in some twenty scripts: right values by hand, frozen English, chrF."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval import GenerationExample, MetricAggregator, PairExample, Prediction, TaskError, TextPair
from figeval.language.words import Reading, TaskWords, open_segmenter, split_words
from figeval.metrics import spans, texts
from figeval.metrics.statistic import as_statistic
from tests.aggregated import count_in

CASES = json.loads((Path(__file__).parents[1] / "golden" / "words" / "scripts.json").read_text("utf-8"))
IDS = [f"{case['script']}-{case['language']}-{number}" for number, case in enumerate(CASES)]
scripts = pytest.mark.parametrize("case", CASES, ids=IDS)
ENGLISH = st.text("abcABC 'Z9é_.,’-\nñ😀", max_size=40)
Case = dict[str, Any]
OpenModel = Callable[..., Any]


def value(metric: Callable[..., Any], case: Case, reference: str, text: str) -> Any:
    example = GenerationExample(id="1", inputs={"q": reference}, references=(reference,), language=case["language"])
    return metric(example, Prediction(example_id="1", value=text))


def decompose(text: str) -> str:
    return normalize("NFD", text)


# ---- right values by hand --------------------------------------------------------------------------------------------


def test_there_are_at_least_fifteen_scripts() -> None:
    assert len({case["script"] for case in CASES}) >= 15


@scripts
def test_words_are_those_of_the_script(case: Case) -> None:
    words = [normalize("NFC", word) for word in case["words"]]
    assert split_words(case["text"], case["language"]) == words, case["why"]
    assert split_words(decompose(case["text"]), case["language"]) == words, case["why"]


@scripts
def test_the_same_word_is_the_same_in_every_form_and_others_are_not(case: Case) -> None:
    for word, other in case["same"]:
        assert split_words(word, case["language"]) == split_words(other, case["language"]), (word, other)
    for word, other in case["different"]:
        assert split_words(word, case["language"]) != split_words(other, case["language"]), (word, other)


@scripts
def test_a_copy_a_near_copy_and_another_text(case: Case) -> None:
    text, near, another_text, n = case["text"], case["near"], case["apart"], len(case["words"])
    assert value(texts.rouge_l, case, text, decompose(text)) == 1.0
    assert value(texts.rouge_l, case, text, near) == pytest.approx((n - 1) / n)
    assert value(texts.rouge_l, case, text, another_text) == 0.0
    assert value(texts.word_count, case, text, near) == n
    assert value(texts.bleu4, case, text, text) == 1.0
    assert value(texts.repetition_4, case, text, text) == 0.0
    assert value(texts.repetition_4, case, text, f"{text} {near} {text}") == 1.0


@scripts
def test_overlap_of_a_copy_is_one_and_of_another_text_zero(case: Case, open_model: OpenModel) -> None:
    model = open_model("overlap")
    model.use_words(TaskWords(Reading(case["language"])))
    rights = (decompose(case["text"]), case["near"], case["apart"])
    scores = model.score_pairs([TextPair(case["text"], right) for right in rights])
    words = set(split_words(case["text"], case["language"]))
    shared = len(words & set(split_words(case["near"], case["language"])))
    union = len(words | set(split_words(case["near"], case["language"])))
    assert scores == [1.0, shared / union, 0.0]
    assert 0 < scores[1] < 1


@scripts
def test_tfidf_finds_a_copy_and_nothing_in_another_text(case: Case, open_model: OpenModel) -> None:
    model = open_model("tfidf")
    model.use_words(TaskWords(Reading(case["language"])))
    sides = [(case["text"], decompose(case["text"])), (case["near"], case["apart"])]
    model.fit([PairExample(id=left, left=left, right=right, label=None) for left, right in sides])
    scores = model.score_pairs([TextPair(case["text"], right) for right in (*sides[0], *sides[1])])
    assert scores[0] == pytest.approx(1)
    assert scores[1] == pytest.approx(1)
    assert 0 < scores[2] < 0.999
    assert scores[3] == 0


def test_a_word_of_another_script_leaves_english_as_rouge_score_has_it() -> None:
    from rouge_score.rouge_scorer import RougeScorer

    reference, text = "Don't mix α and β, which isn't wise, friend.", "do not mix α and β which isn't wise"
    published = RougeScorer(["rougeL"]).score(reference, text)["rougeL"].fmeasure
    assert value(texts.rouge_l, {"language": "en"}, reference, text) == published


@scripts
@pytest.mark.parametrize("language", ["", "en"])
def test_rouge_of_a_copy_is_one_where_the_task_names_no_language(case: Case, language: str) -> None:
    undeclared = {"language": language}
    assert value(texts.rouge_l, undeclared, case["text"], case["text"]) == 1.0
    assert value(texts.rouge_l, undeclared, case["text"], case["near"]) < 1.0


def test_foreign_words_in_a_reply_change_nothing_in_the_rouge_of_an_english_reference() -> None:
    assert value(texts.rouge_l, {"language": ""}, "it's slow", "it's slow कमल") == 1.0


def test_a_vowel_sign_makes_another_word_and_a_tone_mark_too(open_model: OpenModel) -> None:
    model = open_model("overlap")
    model.use_words(TaskWords(Reading("hi")))
    # three words each, of which one is shared: 1 of 5; with consonants as words it was 1 of 3 and 1 of 7
    pairs = [TextPair("कमल खिलता है", "काम मिलता है"), TextPair("कमल खिलता है", "कमल गिर गया")]
    assert model.score_pairs(pairs) == [0.2, 0.2]


@scripts
def test_spans_are_compared_by_words(case: Case) -> None:
    tokens = spans.words(decompose(case["text"]))
    assert tokens == spans.words(case["text"])
    assert len(tokens) <= len(case["words"])
    assert spans.bag_f1(tokens, spans.words(case["apart"])) == 0
    assert 0 < spans.bag_f1(tokens, spans.words(case["near"])) < 1 or len(tokens) == 1


# ---- several languages, segmenters -----------------------------------------------------------------------------------


def test_a_text_of_several_languages_is_divided_as_its_row_says() -> None:
    words = TaskWords(by_text={"KIN": Reading("tr"), "KIT": Reading("en")})
    assert [words.split(text) for text in ("KIN", "KIT", "KID")] == [["kın"], ["kit"], ["kid"]]


def test_jieba_divides_what_is_chinese() -> None:
    pytest.importorskip("jieba")
    assert split_words("乌龟坚持,用Python得到了胜利。กา", "zh", "jieba") == [
        *("乌龟", "坚持", "用", "python", "得到", "了", "胜利", "ก", "า"),
    ]


def test_a_missing_library_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pythainlp.tokenize", None)
    monkeypatch.setitem(__import__("sys").modules, "pythainlp", None)
    open_segmenter.cache_clear()
    with pytest.raises(TaskError, match=r"pip install 'figeval\[th\]'"):
        split_words("มา", "th", "pythainlp")


def test_a_tokenizer_of_sacrebleu_that_misses_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "MeCab", None)
    with pytest.raises(TaskError, match=r"ja-mecab.*pip install 'figeval\[ja\]'"):
        texts._sacrebleu.__wrapped__("ja")


# ---- what is right in English stays ----------------------------------------------------------------------------------


@given(ENGLISH, ENGLISH)
def test_rouge_of_english_is_rouge_scores(reference: str, text: str) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    of_rouge_score = RougeScorer(["rougeL"]).score(reference, text)["rougeL"].fmeasure
    assert value(texts.rouge_l, {"language": ""}, reference, text) == of_rouge_score
    assert value(texts.rouge_l, {"language": "en"}, reference, text) == of_rouge_score


def test_tfidf_of_english_is_scikit_learns(open_model: OpenModel) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    @given(st.lists(st.tuples(ENGLISH, ENGLISH), min_size=1, max_size=4), st.sampled_from(["", "de"]))
    def compare(pairs: list[tuple[str, str]], language: str) -> None:
        if language:  # in other languages only underscores and letters that fold to two differ
            pairs = [(re.sub("[_😀]", " ", left), re.sub("[_😀]", " ", right)) for left, right in pairs]
        pairs = [*pairs, ("two words", "words")]
        model.use_words(TaskWords(Reading(language)))
        model.fit([PairExample(id=str(n), left=left, right=right, label=None) for n, (left, right) in enumerate(pairs)])
        library = TfidfVectorizer().fit(dict.fromkeys(text for pair in pairs for text in pair))
        lefts, rights = (library.transform([pair[side] for pair in pairs]) for side in (0, 1))
        scores = model.score_pairs([TextPair(*pair) for pair in pairs])
        assert scores == lefts.multiply(rights).sum(axis=1).A1.tolist()

    model = open_model("tfidf")
    compare()


def test_overlap_of_english_is_that_of_earlier_versions(open_model: OpenModel) -> None:
    @given(ENGLISH, ENGLISH)
    def compare(left: str, right: str) -> None:
        former = [
            {normalize("NFC", word) for word in re.findall(r"[^\W_]+(?:'[^\W_]+)*", text.lower().replace("’", "'"))}
            for text in (left, right)
        ]
        together = len(former[0] | former[1])
        expected = len(former[0] & former[1]) / together if together else 0.0
        assert model.score_pairs([TextPair(left, right)]) == [expected]

    model = open_model("overlap")
    compare()


def test_leakage_has_a_value_in_english_only() -> None:
    proverb, text = "Slow and steady wins the race", "the slow one wins"
    assert value(texts.leakage, {"language": ""}, proverb, text) == 0.5
    assert value(texts.leakage, {"language": "de"}, proverb, text) is None


# ---- sacrebleu -------------------------------------------------------------------------------------------------------


def score(name: str, language: str, pairs: list[tuple[str, list[str]]]) -> float | None:
    tally = MetricAggregator(name, as_statistic(getattr(texts, name)))
    for number, (text, references) in enumerate(pairs):
        example = GenerationExample(id=str(number), inputs={}, references=tuple(references), language=language)
        count_in(tally, example, Prediction(example_id=str(number), value=text))
    return tally.score().value


@given(st.lists(st.tuples(st.text("abc dé坚持就是", max_size=12), st.text("abc dé坚持就是", min_size=1)), min_size=1))
def test_chrf_is_sacrebleus(pairs: list[tuple[str, str]]) -> None:
    from sacrebleu.metrics.chrf import CHRF

    of_sacrebleu = CHRF().corpus_score([text for text, _ in pairs], [[reference for _, reference in pairs]]).score / 100
    assert score("chrf", "", [(text, [reference]) for text, reference in pairs]) == pytest.approx(
        of_sacrebleu, abs=1e-9
    )


@pytest.mark.parametrize("text", ["봄이 오면 산에 들에", "ọ̀rọ̀ àgbà", "ὁ λόγος ἐστίν", "Đi một ngày đàng"])
def test_chrf_of_a_decomposed_copy_is_1(text: str) -> None:
    """Sacrebleu takes a decomposed letter for other characters, and finds no common n-gram in Korean."""
    composed, decomposed = (normalize(form, text) for form in ("NFC", "NFD"))
    assert score("chrf", "", [(decomposed, [composed])]) == score("chrf", "", [(composed, [decomposed])]) == 1.0


def test_chrf_of_many_sums_at_once_is_that_of_each() -> None:
    sums = np.random.default_rng(0).integers(0, 4, size=(3, 20, 18)).astype(float)
    sums[..., 2::3] = np.minimum(sums[..., 0::3], sums[..., 1::3])
    combined = texts.chrf.combine(sums)
    assert combined.shape == (3, 20)
    assert np.array_equal(combined[1, 7], texts.chrf.combine(sums[1, 7]))
    assert ((combined >= 0) & (combined <= 1)).all()


@pytest.mark.parametrize(
    ("language", "tokenizer"), [("zh", "zh"), ("zh-Hant", "zh"), ("th", "char"), ("hi", "13a"), ("cmn", "zh")]
)
def test_corpus_bleu_takes_the_tokenizer_of_the_language(language: str, tokenizer: str) -> None:
    from sacrebleu.metrics.bleu import BLEU

    pairs = [("坚持就是胜利。ไปมา मिल", "坚持才是胜利。ไปหา मिल"), ("骄傲必败", "骄傲失败")]
    if language == "hi":
        pairs = [("धीरे चलने वाला हमेशा जीतता है। 胜", "धीरे चलने वाला हमेशा हारता है। 胜")]
    of_sacrebleu = BLEU(lowercase=True, tokenize=tokenizer).corpus_score([t for t, _ in pairs], [[r for _, r in pairs]])
    assert score("corpus_bleu", language, [(t, [r]) for t, r in pairs]) == pytest.approx(of_sacrebleu.score / 100)
    assert texts.corpus_bleu.signature_in is not None
    assert f"|tok:{tokenizer}|" in texts.corpus_bleu.signature_in([language])


@pytest.mark.parametrize(
    ("language", "text"),
    [
        *((language, "坚持就是胜利") for language in ("cmn", "nan", "hak", "gan", "hsn", "", "en")),
        ("nod", "ᨠᩣ᩠ᨿᨾᩣᨶᩣ"),
        ("khb", "ᦑᦺᦟᦟᦹᧉ"),
        ("jv", "ꦲꦤꦕꦫꦏ"),
        ("ksw", "ကညီကျိၥ်"),
    ],
)
def test_corpus_bleu_of_a_copy_without_blanks_is_one(language: str, text: str) -> None:
    assert score("corpus_bleu", language, [(text, [text])]) == pytest.approx(1)
    almost = score("corpus_bleu", language, [(text[:-1] + "，", [text])])
    assert almost is not None and 0 < almost < 1


def test_the_ethiopic_word_space_is_a_blank() -> None:
    pairs = [("ቀስ፡ብሎ፡የሚሄድ፡ያሸንፋል", ["ቀስ ብሎ የሚሄድ ያሸንፋል"])]
    assert score("corpus_bleu", "am", pairs) == pytest.approx(1)


@pytest.mark.parametrize(
    ("language", "reference", "text"),
    [
        ("vi", "Chậm mà chắc thì thắng cuộc đua", decompose("Chậm mà chắc thì thắng cuộc đua")),
        ("tr", "ılık su bardakta kaldı", "ILIK SU BARDAKTA KALDI"),
        ("de", "Die Straße ist sehr lang", "DIE STRASSE IST SEHR LANG"),
        ("fr", "Il l’aime depuis qu’il existe", "il l'aime depuis qu'il existe"),
        ("", "धीरे चलने वाला क़लम जीतता है", decompose("धीरे चलने वाला क़लम जीतता है")),
        ("km", "អណ្តើក\u200bដើរ\u200bយឺត", "អណ្តើកដើរយឺត"),
        ("km", "អណ្តើកដើរយឺត", "អណ្តើក\u200bដើរ\u2060យឺត"),
        ("fa", "آهسته می\u200cرود و برنده می\u200cشود", "آهسته می\u200cرود و برنده می\u200cشود\u200f"),
    ],
)
def test_bleu_compares_words_as_the_language_does(language: str, reference: str, text: str) -> None:
    assert value(texts.bleu4, {"language": language}, reference, text) == 1.0
    assert score("corpus_bleu", language, [(text, [reference])]) == pytest.approx(1)


@given(ENGLISH, ENGLISH)
def test_bleu_of_english_is_of_lower_cased_texts_as_they_are(reference: str, text: str) -> None:
    from sacrebleu.metrics.bleu import BLEU

    of_sacrebleu = BLEU(lowercase=True).corpus_score([text.lower()], [[reference]])
    counts = texts._counts(
        GenerationExample(id="1", inputs={}, references=(reference,)), Prediction(example_id="1", value=text)
    )
    assert counts == [*of_sacrebleu.counts, *of_sacrebleu.totals, of_sacrebleu.sys_len, of_sacrebleu.ref_len]


def test_the_signature_of_several_languages_names_each_tokenizer() -> None:
    assert texts.corpus_bleu.signature_in is not None
    signature = texts.corpus_bleu.signature_in(["en", "zh", "de"])
    assert re.match(r"en, de: nrefs:1\|.*tok:13a.*; zh: nrefs:1\|.*tok:zh", signature)


# ---- the classifier --------------------------------------------------------------------------------------------------


def test_the_classifier_learns_from_words_of_every_script(tmp_path: Path) -> None:
    rows = [("龟慢慢走", "slow"), ("兔很快跑", "fast"), ("龟再慢走", "slow"), ("兔再快跑", "fast")]
    (tmp_path / "train.csv").write_text("\n".join(["text,label", *(f"{text},{label}" for text, label in rows)]))
    (tmp_path / "test.csv").write_text("text,label\n龟,slow\n")
    (tmp_path / "speed.task.yaml").write_text(
        "name: speed\ntype: classification\ndata: {test: 'csv:test.csv', train: 'csv:train.csv'}\nlanguage: zh\n"
        "fields: {id: row.text, text: row.text, label: row.label}\nlabels: [slow, fast]\nmetrics: [acc]\n"
    )
    options = {"include_path": tmp_path, "output_path": tmp_path / "run", "baselines": False}
    (score,) = figeval.run("speed", "tfidf_logreg", **options).record.tasks[0].scores
    assert score.value == 1
