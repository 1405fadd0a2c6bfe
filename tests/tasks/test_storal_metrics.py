"""The metrics of STORAL's texts: every quirk of the script, code written otherwise, what the paper's model wrote."""

from __future__ import annotations

import json
import random
import re
from difflib import SequenceMatcher
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import figeval
from figeval import DataError, GenerationExample, Prediction, Statistic
from figeval.testing import check_metric
from tests.aggregated import score_of, score_of_rows
from tests.aggregated import statistic as statistic_of
from tests.cli.conftest import Cli
from tests.processes import figeval as run_figeval

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "tasks" / "storal_metrics.json").read_text("utf-8"))
CASES, PUBLISHED_CASES = GOLDEN["cases"], GOLDEN["published"]
OUTLINES = ("coverage", "coverage_corrected", "order", "order_corrected", "phrases_found")
TEXTS = (
    *("bleu_1", "bleu_2", "bleu_1_full_width", "bleu_2_full_width"),
    *("repetition_2", "repetition_4_published", "length_published"),
)
VARIETY = ("distinct_2_published", "distinct_4")
WORDS = st.lists(
    st.sampled_from(["fox", "Crow", "big", "a", ".", "old,", "lamb", "wolf-cub", "it's", "...", "!"]), max_size=25
)
CHINESE = st.text(alphabet="狐狸大小羊天。，. a", max_size=25)


def statistic(name: str) -> Statistic:
    return statistic_of(name, "generation")


def example(reference: str, outline: Any = (), language: str = "en", name: str = "1") -> GenerationExample:
    inputs = {"outline": tuple(outline)}
    return GenerationExample(id=name, inputs=inputs, references=(reference,), language=language)


def answer(text: str | None, **extra: Any) -> Prediction:
    return Prediction(example_id="1", value=text, **extra)


def value(name: str, example: GenerationExample, prediction: Prediction) -> float | None:
    """The score of a single example."""
    return score_of(name, "generation", [(example, prediction)])


@pytest.fixture(scope="module")
def english() -> None:
    try:
        value("bleu_1", example("A fox."), answer("A fox."))
    except DataError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def chinese() -> None:
    if find_spec("jieba") is None:
        pytest.skip("no jieba: pip install 'figeval[zh]'")


TOKENS = {"en": "english", "zh": "chinese"}  # language → the fixture that metrics of tokens need


# ---- golden cases ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case["why"][:50] for case in CASES])
def test_golden(case: dict[str, Any], request: pytest.FixtureRequest) -> None:
    language = case.get("language", "en")
    text = "天" * case.get("before", 0) + case["text"] * case.get("times", 1)
    for name, expected in case["expected"].items():
        if name in TEXTS:
            request.getfixturevalue(TOKENS[language])
        value_of_case = value(name, example(case["reference"], case.get("outline", ()), language), answer(text))
        assert value_of_case == (None if expected is None else pytest.approx(expected, abs=1e-12)), (name, case["why"])


def test_every_quirk_is_a_case() -> None:
    assert {case["quirk"] for case in CASES if "quirk" in case} == set(range(1, 9))


def test_a_missing_bigram_is_not_quite_zero(english: None) -> None:
    bleu = value("bleu_2", example("a fox sang"), answer("sang fox"))
    assert bleu is not None
    assert 0 < bleu < 1e-100


# ---- code written otherwise ------------------------------------------------------------------------------------------


def match_words(phrase: list[str], sentence: list[str]) -> tuple[set[str], int]:
    """The words of a common subsequence and the depth of the recursion, by the table of the textbook."""

    table = [[0] * (len(sentence) + 1) for _ in range(len(phrase) + 1)]
    for row, word in enumerate(phrase, start=1):
        for column, other in enumerate(sentence, start=1):
            longer = max(table[row - 1][column], table[row][column - 1])
            table[row][column] = table[row - 1][column - 1] + 1 if word == other else longer
    i, j, words, depth = len(phrase), len(sentence), set(), 1
    while i and j:
        if phrase[i - 1] == sentence[j - 1]:
            words.add(phrase[i - 1])
            i, j = i - 1, j - 1
        elif table[i - 1][j] > table[i][j - 1]:
            i -= 1
        else:
            j -= 1
        depth += 1
    return words, depth


def recalls(outline: list[str], story: str, language: str) -> list[float]:
    """The recall of every phrase that raises no error."""

    def sentences(text: str) -> list[list[str]]:
        text = text.lower()
        text = " ".join(re.sub(r"\s", "", text)) if language == "zh" else re.sub(r"([,.\"?';:!…-])", r" \1 ", text)
        text = " ".join(text.split())
        return [re.split(" ", " ".join(sentence.split())) for sentence in text.split(".") if sentence != ""]

    recall_list = []
    for phrase in outline:
        parts, story_sentences = sentences(phrase), sentences(story)
        if parts and story_sentences:
            words = [match_words(part, sentence)[0] for part in parts for sentence in story_sentences]
            recall_list.append(len(set().union(*words)) / len({word for part in parts for word in part}))
    return recall_list


def in_order(outline: list[str], reference: str, story: str, language: str) -> float:
    """The published order, with difflib in search of the longest common substring."""

    def spelled(text: str) -> str:
        if language == "zh":
            return re.sub(r"\s", "", text.lower())
        return " ".join(re.sub(r"([,.\"?';:!…-])", r" \1 ", text.lower()).split())

    rank: dict[str, int] = {}
    gold = reference.lower().strip()
    phrases = [phrase.lower().strip() for phrase in outline]
    for index_in_outline, index in enumerate(sorted(range(len(phrases)), key=lambda index: gold.find(phrases[index]))):
        rank[phrases[index]] = index_in_outline
    located = []
    for phrase in reversed(list(rank)):
        block = SequenceMatcher(None, spelled(phrase), spelled(story), False).find_longest_match()
        shared = spelled(phrase)[block.a : block.a + block.size]
        enough = len(shared.replace(" ", "")) > (1 if language == "zh" else 3)
        located.append((block.b if enough else -1, rank[phrase]))
    ranks = [pair for _, pair in sorted(located, key=lambda pair: pair[0])]
    pairs = [(i, j) for i in range(len(ranks)) for j in range(i, len(ranks))]
    return 1 - sum(ranks[i] > ranks[j] for i, j in pairs) / len(pairs)


@given(st.lists(WORDS.map(lambda words: words[:4]), min_size=1, max_size=5), WORDS, WORDS)
def test_english_stories_score_as_by_code_written_otherwise(
    outline: list[list[str]], reference: list[str], story: list[str]
) -> None:
    check_both([" ".join(phrase) for phrase in outline], " ".join(reference), " ".join(story), "en")


@given(st.lists(CHINESE.map(lambda text: text[:4]), min_size=1, max_size=5), CHINESE, CHINESE)
def test_chinese_stories_score_as_by_code_written_otherwise(outline: list[str], reference: str, story: str) -> None:
    check_both(outline, reference, story, "zh")


def check_both(outline: list[str], reference: str, story: str, language: str) -> None:
    assume(story.strip())
    question, prediction = example(reference, outline, language), answer(story)
    expected = recalls(outline, story, language)
    features = statistic("coverage").features(question, prediction)
    assert features == ((pytest.approx(sum(expected)), len(expected)) if expected else None)
    assert value("order", question, prediction) == pytest.approx(in_order(outline, reference, story, language))


@pytest.mark.parametrize("length", [985, 990, 991, 1000])
def test_what_python_cannot_read_recursively_is_left_out(length: int) -> None:
    generator = random.Random(length)
    story = "".join(generator.choices("天地人山水", k=length))
    depth = match_words(list("狐水狸"), list(story))[1]
    features = statistic("coverage").features(example("狐狸", ["狐水狸"], "zh"), answer(story))
    assert features == (None if depth > 991 else (pytest.approx(1 / 3), 1.0))
    assert value("coverage_corrected", example("狐狸", ["狐水狸"], "zh"), answer(story)) == pytest.approx(1 / 3)


def test_bleu_is_that_of_nltk(english: None) -> None:
    from nltk.tokenize import word_tokenize
    from nltk.translate.bleu_score import corpus_bleu

    text, reference = "the fox ran to the old barn.", "the old fox ran into the barn, and slept."
    pair = [[word_tokenize(reference)]], [word_tokenize(text)]
    for n in (1, 2):
        bleu = value(f"bleu_{n}", example(reference), answer(text))
        assert bleu == pytest.approx(corpus_bleu(*pair, weights=[1 / n] * n))


# ---- any text --------------------------------------------------------------------------------------------------------


@given(WORDS, WORDS, st.lists(WORDS.map(lambda words: words[:3]), max_size=4))
def test_shares_are_shares(english: None, text: list[str], reference: list[str], outline: list[list[str]]) -> None:
    phrases = [" ".join(phrase) for phrase in outline if any(map(str.isalpha, phrase))]
    question, prediction = example(" ".join(reference), phrases), answer(" ".join(text))
    for name in {*TEXTS, *OUTLINES} - {"length_published"}:
        share = value(name, question, prediction)
        assert share is None or 0.0 <= share <= 1.0 + 1e-12, name
        assert text or share is None, name


@pytest.mark.slow
@given(st.lists(st.from_regex("[a-z]{4,8}", fullmatch=True), min_size=2, max_size=20, unique=True), st.randoms())
def test_the_human_story_scores_one(english: None, words: list[str], generator: random.Random) -> None:
    assume(not any(word in other for word in words for other in words if word != other))
    outline = generator.sample(words, k=min(5, len(words)))
    question, prediction = example(" ".join(words), outline), answer(" ".join(words).upper())
    for name in ("bleu_1", "bleu_2", *OUTLINES):
        assert value(name, question, prediction) == pytest.approx(1.0), name


@pytest.mark.parametrize("language", ["en", "zh"])
def test_long_texts_cost_little(language: str) -> None:
    phrase = "狐狸吃羊" * 50 if language == "zh" else "the fox " * 50
    story = ("天地狐人山羊" if language == "zh" else "a goat met a fox, ") * 3000
    question = example(story, [phrase, phrase[:9]], language)
    for name in OUTLINES:  # a sentence of thousands of words is too deep for the script
        assert (value(name, question, answer(story)) is None) == (name == "coverage"), name


@pytest.mark.parametrize("language", ["en", "zh"])
def test_metrics_keep_to_the_contract(language: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(TOKENS[language])
    fox = {"en": ("The amber fox met a goat!", ["amber fox", "goat"]), "zh": ("红狐狸遇见山羊!", ["红狐狸", "山羊"])}
    question = example(*fox[language], language)
    cases = [(question, answer(text)) for text in (question.references[0], question.references[0][3:], "")]
    for name in {*TEXTS, *OUTLINES}:
        if language == "zh" or not name.endswith("full_width"):
            check_metric(statistic(name), cases)


# ---- all texts together ----------------------------------------------------------------------------------------------


def distinct(name: str, texts: list[str | None], language: str = "en") -> float | None:
    """The score of texts together; None is a text that was not written."""
    rows = [{"pred": text, "status": "empty" if text is None else "ok", "language": language} for text in texts]
    return score_of_rows(name, "generation", rows)


def test_variety_is_over_all_texts(english: None) -> None:
    assert distinct("distinct_2_published", ["the fox ran", "the fox slept"]) == pytest.approx(3 / 4)
    assert distinct("distinct_4", ["the old fox ran", "The old fox ran", "a b c d e"]) == pytest.approx(3 / 4)


def test_variety_of_nothing_is_unknown(english: None) -> None:
    assert distinct("distinct_4", [None, None]) is None
    assert distinct("distinct_4", ["too short"]) is None
    assert distinct("distinct_4", [None, " ", "the old fox ran"]) == 1.0


def test_variety_of_chinese_texts(chinese: None) -> None:
    assert distinct("distinct_2_published", ["他来到了网易杭研大厦"] * 2, "zh") == pytest.approx(5 / 10)


ROWS = """
{"id": "a", "outline": ["amber fox"], "story": "The amber fox ran. The amber fox sang."}
{"id": "b", "outline": ["brown goat", "golden bell"], "story": "A golden bell hung from the brown goat."}
"""
TASK = """
name: outlined
type: generation
data: {test: "jsonl:outlined.jsonl"}
fields: {id: row.id, inputs: {outline: row.outline}, references: "[row.story]"}
metrics: [bleu_1, length_published, coverage, order, order_corrected, phrases_found, distinct_4]
baselines: []
"""


@pytest.fixture
def outlined(tmp_path: Path) -> tuple[str, ...]:
    """The arguments of a run on a task of two stories."""
    (tmp_path / "outlined.jsonl").write_text(ROWS.strip(), "utf-8")
    (tmp_path / "outlined.task.yaml").write_text(TASK, "utf-8")
    return ("run", "--tasks", "outlined", "--model", "echo", "--include_path", ".", "--output_path", "run")


def test_a_run_scores_and_says_with_what(english: None, outlined: tuple[str, ...], tmp_path: Path, cli: Cli) -> None:
    assert cli(*outlined).code == 0
    record = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))["tasks"][0]
    scores = {score["metric"]: score["value"] for score in record["scores"]}
    assert scores["length_published"] == 3.0  # two and four tokens
    assert (scores["coverage"], scores["phrases_found"]) == (1.0, 1.0)
    assert scores["order"] == pytest.approx((1 + 2 / 3) / 2)
    assert scores["order_corrected"] == 0.5
    assert scores["distinct_4"] == 1.0
    assert record["settings"]["signatures"]["bleu_1"].startswith("case:lc|tok:word_tokenize,jieba|nltk:3.")


CHINESE_ROWS = """
{"id": "a", "half": "1", "outline": ["狐狸 来到 了"], "story": "狐狸来到了大厦。"}
{"id": "b", "half": "2", "outline": ["狐狸 吃 羊"], "story": "山羊不吃狐狸。"}
"""


def test_the_language_of_a_task_is_that_of_rows_that_name_none(chinese: None, tmp_path: Path) -> None:
    """Scores, those of baselines and those of a breakdown without the model are as where every row says it."""
    fields = "fields: {id: row.id, inputs: {outline: row.outline}, references: '[row.story]', meta: {half: row.half}}\n"
    metrics = "metrics: [bleu_1, length_published, distinct_2_published]\nbaselines: [echo]\n"
    data = f'type: generation\ndata: {{test: "jsonl:rows.jsonl"}}\nlanguage: zh\n{metrics}'
    fields_with_language = fields.replace("{id:", "{language: \"'zh'\", id:")
    (tmp_path / "rows.jsonl").write_text(CHINESE_ROWS.strip(), "utf-8")
    (tmp_path / "task.task.yaml").write_text(f"name: of_task\n{data}{fields}", "utf-8")
    (tmp_path / "row.task.yaml").write_text(f"name: of_row\n{data}{fields_with_language}", "utf-8")
    run = figeval.run(["of_task", "of_row"], "echo", include_path=tmp_path, output_path=tmp_path / "run")
    assert run.complete, run.record
    first, second = run.record.tasks
    values = {score.metric: score.value for score in first.scores}
    assert values["length_published"] == 5.0, "jieba takes blanks for tokens, and NLTK would find three"
    assert first.scores == second.scores == first.baselines[0].scores
    assert (first.settings["language"], first.settings.get("languages")) == ("zh", None)
    halves = [task.breakdowns for task in run.by("half").record.tasks]
    assert halves[0] == halves[1] and len(halves[0][0].groups) == 2


# ---- what is missing -------------------------------------------------------------------------------------------------


def test_an_empty_phrase_is_refused_by_the_corrected_coverage() -> None:
    for empty in ("", "  ", "."):
        with pytest.raises(DataError, match=r"^example '7': phrase 2 of the outline is empty; correct or remove it$"):
            value("coverage_corrected", example("none", ["a fox", empty], name="7"), answer("A fox."))


def test_a_language_without_tokens_is_refused() -> None:
    with pytest.raises(DataError, match="example '1': the metrics of STORAL are for en and zh, not 'fr'"):
        value("bleu_1", example("Un renard.", language="fr"), answer("Un renard."))


@pytest.mark.parametrize("name", ["bleu_1", "coverage", "order", "distinct_4"])
def test_chinese_is_not_taken_for_english(name: str) -> None:
    with pytest.raises(DataError, match="has a Chinese reference but no language; write `language: zh` into"):
        statistic(name).features(example("狐狸", ["狐狸"], language=""), answer("狐狸"))


def test_punkt_is_asked_for_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    with pytest.raises(DataError, match=r"cannot find its data punkt_tab; run `python -m nltk.downloader punkt_tab`"):
        value("bleu_1", example("A text that no other test reads."), answer("A fox that no other test meets."))


@pytest.mark.usefixtures("warm_start")
def test_jieba_is_asked_for_in_one_line(outlined: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "jieba.py").write_text("raise ModuleNotFoundError(name='jieba')")
    (tmp_path / "outlined.task.yaml").write_text(f"{TASK}language: zh\n", "utf-8")
    done = run_figeval(*outlined, cwd=tmp_path, code=1, PYTHONPATH=str(tmp_path))
    assert "figeval[storal]" in done.stderr + done.stdout


# ---- the published outputs -------------------------------------------------------------------------------------------


@pytest.fixture
def published(real_data: str, tmp_path: Path) -> Any:
    """`published(task, language)`: five examples and what the paper's RA-T5 wrote."""

    def lines(path: str) -> list[str]:
        return Path(real_data, "storal", "examples", "generation", path).read_text("utf-8").splitlines()

    def read(task: str, language: str) -> list[tuple[GenerationExample, Prediction]]:
        pairs = []
        targets = [re.sub(r"<extra_id_\d+>|</s>", "", line) for line in lines(f"t5/{task}_data_{language}/test.target")]
        sources = lines(f"t5/{task}_data_{language}/test.source")
        texts = lines(f"evaluation/{task}/ra_t5_{task}_{language}.txt")
        for target, source, text in zip(targets, sources, texts, strict=True):
            phrases = [phrase.strip() for phrase in source.split("#")[2:]] if task == "mo2st" else ()
            pairs.append((example(target.strip(), phrases, language), answer(text.strip())))
        assert len(pairs) == 5
        return pairs

    return read


@pytest.mark.parametrize(
    "case", PUBLISHED_CASES, ids=[f"{case['task']}-{case['language']}" for case in PUBLISHED_CASES]
)
def test_published_outputs_score_as_by_the_script(
    published: Any, case: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """The numbers are those of the published script with its library, `rouge` 1.0.1, but for the corrected ones."""
    request.getfixturevalue(TOKENS[case["language"]])
    pairs = published(case["task"], case["language"])
    for name, expected in case["expected"].items():
        if name in VARIETY:
            score = distinct(name, [prediction.value for _, prediction in pairs], case["language"])
        else:
            score = score_of(name, "generation", pairs)
        assert score == pytest.approx(expected, abs=5e-7), name


def test_without_punkt_bleu_would_be_another(published: Any, english: None) -> None:
    from nltk.tokenize import word_tokenize
    from nltk.translate.bleu_score import corpus_bleu

    scores = []
    for question, prediction in published("mo2st", "en"):
        story, reference = (
            word_tokenize(text.lower(), preserve_line=True) for text in (prediction.value, question.references[0])
        )
        scores.append(corpus_bleu([[reference]], [story], weights=[1]))
    assert sum(scores) / 5 == pytest.approx(0.340803, abs=5e-7)
