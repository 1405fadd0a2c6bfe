"""Keywords of narratives: the rules on hand-tagged sentences, both extractors, and what is kept between runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from figeval import DataError, FigevalError
from figeval.builtin.tasks.epic import extractors, keywords
from figeval.language import nltk_data as packages
from figeval.language import spacy_pipeline, tagging
from tests.conftest import MIRROR

TEXTS = [
    "John didn't know where he was going. He had left New York with Mary, and had nothing.",
    "The old man did not understand it. She has never been to Paris, but she does her work and did her best.",
]


def sentence(text: str) -> list[tagging.Token]:
    """`He/PRP did/VBD` as tokens, at the places where they would stand in "He did"."""
    tokens, position = [], 0
    for part in text.split():
        word, _, tag = part.rpartition("/")
        tokens.append(tagging.Token(position, position + len(word), word, tag))
        position += len(word) + 1
    return tokens


def plain(text: str) -> str:
    return " ".join(part.rpartition("/")[0] for part in text.split())


# ---- the rules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tagged", "verbs"),
    [
        ("He/PRP went/VBD home/NN", ["went"]),
        ("He/PRP was/VBD going/VBG", ["going"]),
        ("They/PRP were/VBD late/JJ", []),
        ("He/PRP did/VBD n't/RB know/VB", ["know"]),
        ("He/PRP did/VBD his/PRP$ best/JJS", ["did"]),
        ("Did/VBD he/PRP know/VB", ["know"]),
        ("and/CC why/WRB did/VBD John/NNP go/VB", ["go"]),
        ("She/PRP had/VBD never/RB left/VBN", ["left"]),
        ("She/PRP had/VBD a/DT cat/NN", ["had"]),
        ("She/PRP had/VBD to/TO leave/VB", ["had", "leave"]),
        ("Having/VBG eaten/VBN he/PRP slept/VBD", ["eaten", "slept"]),
        ("He/PRP 's/VBZ gone/VBN", ["gone"]),
        ("They/PRP 've/VBP been/VBN told/VBN", ["told"]),
        ("He/PRP would/MD have/VB come/VBN", ["come"]),
        ("He/PRP had/VBD it/PRP repaired/VBN", ["had", "repaired"]),
        ("I/PRP wasnt/VBD asked/VBN", ["asked"]),
    ],
)
def test_verbs_that_are_no_auxiliaries(tagged: str, verbs: list[str]) -> None:
    assert [token.word for token in tagging.main_verbs(sentence(tagged))] == verbs


@pytest.mark.parametrize(
    ("tagged", "names"),
    [
        ("He/PRP met/VBD Mary/NNP Ann/NNP Lee/NNP", ["Mary Ann Lee"]),
        ("Mary/NNP met/VBD John/NNP", ["Mary", "John"]),
        ("Halfway/NNP through/IN it/PRP stopped/VBD", []),
        ("Somehow/NNP he/PRP knew/VBD", []),
        ("``/`` Mary/NNP left/VBD", ["Mary"]),
        ('I/NNP met/VBD "/NNP the/DT Smiths/NNPS', ["Smiths"]),
        ("In/IN March/NNP ,/, April/NNP came/VBD", ["March", "April"]),
    ],
)
def test_names_are_runs_of_proper_nouns(tagged: str, names: list[str]) -> None:
    text = plain(tagged)
    assert [text[start:end] for start, end in extractors.names(text, sentence(tagged))] == names


def test_a_line_break_parts_two_names() -> None:
    tokens = [tagging.Token(0, 4, "Mary", "NNP"), tagging.Token(5, 9, "John", "NNP")]
    assert list(extractors.names("Mary\nJohn", tokens)) == [(0, 4), (5, 9)]
    assert list(extractors.names("Mary John", tokens)) == [(0, 9)]


def test_each_once_in_the_order_of_the_text() -> None:
    assert extractors.order_keywords([(9, "went"), (0, "Went"), (4, "John"), (2, "ran")]) == ("Went", "ran", "John")
    assert extractors.order_keywords([]) == ()


# ---- NLTK ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def nltk_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """NLTK's data where there are any; the variable of spaCy unset."""
    import nltk

    monkeypatch.delenv(spacy_pipeline.VARIABLE, raising=False)
    if MIRROR is not None:
        monkeypatch.setattr(nltk.data, "path", [*nltk.data.path, str(Path(MIRROR) / "nltk" / "packages")])
    if not packages.has(tagging.PACKAGES):
        pytest.skip("no NLTK data: set NLTK_DATA to a folder with punkt_tab and averaged_perceptron_tagger_eng")


def test_nltk_reads_sentences(nltk_data: None) -> None:
    first, second = extractors.NltkExtractor().keywords(TEXTS)
    assert first == ("John", "know", "going", "left", "New York", "Mary", "had")
    assert second == ("understand", "Paris", "does", "did")


def test_keywords_stand_in_the_text(nltk_data: None) -> None:
    text = "“Don’t go,” said Mrs. O’Hara; ‘you’ll regret it’ — and she'd know, wouldn't she?\nANNA laughed.  "
    (keyword_list,) = extractors.NltkExtractor().keywords([text])
    assert keyword_list
    assert all(keyword in text for keyword in keyword_list)
    assert len({keyword.lower() for keyword in keyword_list}) == len(keyword_list)


@pytest.mark.parametrize("text", ["", "   ", "...", "'", "\"''\"", "No verb here!"])
def test_a_text_may_have_none(nltk_data: None, text: str) -> None:
    assert extractors.NltkExtractor().keywords([text]) == [()]


def test_missing_data_name_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    cure = r"run `python -m nltk.downloader punkt_tab averaged_perceptron_tagger_eng`, or set NLTK_DATA"
    with pytest.raises(DataError, match=cure) as caught:
        _ = extractors.NltkExtractor().identity
    assert "\n" not in str(caught.value)
    assert not packages.has(tagging.PACKAGES)


# ---- spaCy -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """A folder with a pipeline of rules: some verbs, one auxiliary, one date."""
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    verbs = ["know", "going", "left", "understand", "did"]
    ruler = nlp.add_pipe("attribute_ruler")
    ruler.add([[{"LOWER": {"IN": verbs}}]], {"POS": "VERB"})
    ruler.add([[{"LOWER": {"IN": ["was", "had", "has"]}}]], {"POS": "AUX"})
    entities = nlp.add_pipe("entity_ruler")
    entities.add_patterns([{"label": "GPE", "pattern": "New York"}, {"label": "DATE", "pattern": "The old man"}])
    nlp.to_disk(tmp_path / "rules")
    return tmp_path / "rules"


@pytest.mark.slow
def test_spacy_takes_verbs_and_entities_of_any_type(pipeline: Path) -> None:
    first, second = extractors.SpacyExtractor(pipeline, str(pipeline)).keywords(TEXTS)
    assert first == ("did", "know", "going", "left", "New York")
    assert second == ("The old man", "did", "understand")


@pytest.mark.slow
def test_the_variable_names_a_pipeline(pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(spacy_pipeline.VARIABLE, str(pipeline))
    identity = extractors.choose_extractor().identity
    assert identity["extractor"] == "spacy"
    ((name, digest),) = identity["data"].items()
    assert name.startswith("en_pipeline ")
    assert len(digest) == 12
    assert str(pipeline) not in json.dumps(identity), "records hold no paths"
    (pipeline / "more").write_text("x")
    assert extractors.choose_extractor().identity != identity


@pytest.mark.parametrize("name", ["en_core_web_nowhere", "/no/such/folder"])
def test_a_pipeline_that_is_not_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("spacy")
    monkeypatch.setenv(spacy_pipeline.VARIABLE, name)
    with pytest.raises(DataError, match=r"python -m spacy download en_core_web_sm.*or unset it to use NLTK"):
        extractors.choose_extractor()


def test_spacy_itself_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(spacy_pipeline.VARIABLE, "en_core_web_sm")
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(FigevalError, match=r"pip install 'figeval\[spacy\]'"):
        extractors.choose_extractor()


def test_a_pipeline_without_parts_of_speech(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(DataError, match="sets no parts of speech; set FIGEVAL_SPACY_MODEL to one that does"):
        extractors.SpacyExtractor(tmp_path / "blank", str(tmp_path / "blank")).keywords(TEXTS)


def test_a_folder_that_is_no_pipeline(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    (tmp_path / "meta.json").write_text('{"lang": "en", "name": "x", "version": "1"}')
    with pytest.raises(DataError, match="spaCy cannot load") as caught:
        extractors.SpacyExtractor(tmp_path, str(tmp_path)).keywords(TEXTS)
    assert "\n" not in str(caught.value)


def test_an_empty_variable_means_nltk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(spacy_pipeline.VARIABLE, "")
    assert isinstance(extractors.choose_extractor(), extractors.NltkExtractor)


# ---- kept between runs -----------------------------------------------------------------------------------------------


class Fixed:
    """An extractor that counts how often it is asked."""

    def __init__(self, *keyword_lists: tuple[str, ...], version: str = "1") -> None:
        self.found, self.identity, self.asked = keyword_lists, {"extractor": "fixed", "version": version}, 0

    def keywords(self, texts: Any) -> list[tuple[str, ...]]:
        self.asked += 1
        return [self.found[number % len(self.found)] for number, _ in enumerate(texts)]


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> Fixed:
    extractor = Fixed(("Ran", "Bob"), ())
    monkeypatch.setattr(keywords, "choose_extractor", lambda: extractor)
    monkeypatch.setattr(packages, "has", lambda names: False)
    return extractor


def test_keywords_are_found_once(fixed: Fixed, own_home: Path) -> None:
    texts, notes = {"Q1N1": "Bob Ran", "Q1N2": "none"}, dict[str, Any]()
    keyword_lists = keywords.keywords_of(texts, notes)
    assert keyword_lists == {"Q1N1": ("Ran", "Bob"), "Q1N2": ()}
    assert notes == {"keywords": {"extractor": "fixed", "version": "1"}}
    assert keywords.keywords_of(texts, {}) == keyword_lists
    assert fixed.asked == 1
    assert len(list((own_home / "keywords").iterdir())) == 1, "no half-written file is left"
    keywords.keywords_of({**texts, "Q1N2": "changed"}, {})
    fixed.identity = {**fixed.identity, "version": "2"}
    keywords.keywords_of(texts, {})
    assert fixed.asked == 3, "another text or another version is another question"


def test_a_broken_store_says_what_to_do(fixed: Fixed, own_home: Path) -> None:
    keywords.keywords_of({"Q1N1": "Bob"}, {})
    (file,) = (own_home / "keywords").iterdir()
    file.write_text("{")
    with pytest.raises(DataError, match=r"not valid JSON.*; delete it"):
        keywords.keywords_of({"Q1N1": "Bob"}, {})


def test_a_home_that_cannot_be_written(fixed: Fixed, own_home: Path) -> None:
    own_home.write_text("a file")
    with pytest.raises(DataError, match="set FIGEVAL_HOME to a writable folder"):
        keywords.keywords_of({"Q1N1": "Bob"}, {})


# ---- agreement -------------------------------------------------------------------------------------------------------


def test_agreement() -> None:
    first, other = Fixed(("a", "b"), (), ("c",)), Fixed(("b", "a"), (), ("d",))
    agreement = keywords.agreement(first, other, ["1", "2", "3"])
    assert (agreement.jaccard, agreement.equal, agreement.n) == (
        pytest.approx((1 + 1 + 0) / 3),
        pytest.approx(1 / 3),
        3,
    )
    with pytest.raises(ValueError, match="no texts"):
        keywords.agreement(first, other, [])


@pytest.mark.slow
def test_where_both_are_there_their_agreement_is_recorded(
    nltk_data: None, pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(spacy_pipeline.VARIABLE, str(pipeline))
    notes: dict[str, Any] = {}
    keywords.keywords_of(dict(zip("ab", TEXTS, strict=True)), notes)
    agreed = notes["keywords"]["agreement_with_nltk"]
    # {know, going, left, New York} of 8 and {did, understand} of {The old man, did, understand, Paris, does}
    assert agreed == {"jaccard": pytest.approx((4 / 8 + 2 / 5) / 2), "equal": 0.0, "n": 2}
    again: dict[str, Any] = {}
    keywords.keywords_of(dict(zip("ab", TEXTS, strict=True)), again)
    assert again == notes
