"""Extractors of a narrative's keywords: a spaCy pipeline, as in the paper, or NLTK's tagger.

Keywords are main verbs and named entities (Ghosh and Srivastava 2022, section 5.4): surface forms in text order, each
once regardless of case. Texts must not be lower-cased, because names are recognised by their case.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from figeval.errors import DataError
from figeval.io.files import digest_of_file
from figeval.language import nltk_data
from figeval.language.spacy_pipeline import VARIABLE, installed_pipeline, pipeline_folder
from figeval.language.tagging import PACKAGES, SentenceReader, Token, main_verbs, reader
from figeval.types import JSON

PositionedKeywords: TypeAlias = Iterable[tuple[int, str]]  # (start in the text, keyword)
RULES = 1  # incremented when a change of the rules, here or in tagging.py, changes the keywords
BEHIND_NO_NAME = frozenset({"PRP", "PRP$", "DT", "TO", "IN"})


class Extractor(Protocol):
    """An extractor of keywords; `identity` goes into records and changes whenever the keywords might."""

    @property
    def identity(self) -> JSON: ...
    def keywords(self, texts: Sequence[str]) -> list[tuple[str, ...]]: ...


def choose_extractor() -> Extractor:
    """Return the extractor to use.

    This is the spaCy pipeline named by FIGEVAL_SPACY_MODEL, or en_core_web_sm if it and spaCy are installed, or else
    NLTK's tagger. If the variable is set but empty, it is NLTK's tagger.

    Raises:
        DataError: the named pipeline is not installed.
    """
    name = installed_pipeline()
    return NltkExtractor() if name is None else SpacyExtractor(pipeline_folder(name), name)


def order_keywords(keywords: PositionedKeywords) -> tuple[str, ...]:
    """Return the keywords in text order, each once regardless of case."""
    first: dict[str, str] = {}
    for _, keyword in sorted(keywords):
        first.setdefault(keyword.lower(), keyword)
    return tuple(first.values())


def folder_digest(folder: Path) -> str:
    """Return a digest of twelve hex digits over the names and contents of a folder's files."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc")
    lines = [f"{file.relative_to(folder).as_posix()} {digest_of_file(file).hex()}" for file in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


# ---- spaCy -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpacyExtractor:
    """Extractor of tokens tagged VERB (auxiliaries are tagged AUX) and of entities of any type."""

    folder: Path
    name: str

    @property
    def identity(self) -> JSON:
        """Version of spaCy, and name, version and contents of the pipeline."""
        meta = json.loads((self.folder / "meta.json").read_text(encoding="utf-8"))
        pipeline = f"{meta['lang']}_{meta['name']} {meta['version']}"
        return {
            "extractor": "spacy",
            "version": version("spacy"),
            "rules": RULES,
            "data": {pipeline: folder_digest(self.folder)},
        }

    def keywords(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the keywords of each text.

        Raises:
            DataError: the pipeline cannot be loaded, or it sets no parts of speech or no named entities.
        """
        import spacy

        try:
            nlp = spacy.load(self.name)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"spaCy cannot load {self.name!r} ({reason}); set {VARIABLE} to another one") from error
        docs = list(nlp.pipe(texts))
        for annotation, attribute in (("parts of speech", "POS"), ("named entities", "ENT_IOB")):
            if not any(doc.has_annotation(attribute) for doc in docs):
                raise DataError(f"the pipeline {self.name!r} sets no {annotation}; set {VARIABLE} to one that does")
        return [order_keywords(self._find_keywords(doc)) for doc in docs]

    def _find_keywords(self, doc: Any) -> Iterator[tuple[int, str]]:
        yield from ((token.idx, token.text) for token in doc if token.pos_ == "VERB")
        yield from ((entity.start_char, entity.text) for entity in doc.ents)


# ---- NLTK ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NltkExtractor:
    """Extractor of main verbs and runs of proper nouns, by Punkt's sentences and the averaged perceptron's Penn tags.

    Dates and numbers, which spaCy counts as entities, are not extracted.
    """

    @property
    def identity(self) -> JSON:
        """Version of NLTK and contents of its data. Raises `DataError` if the data are missing."""
        nltk_data.require(PACKAGES)
        return {
            "extractor": "nltk",
            "version": version("nltk"),
            "rules": RULES,
            "data": {package: folder_digest(nltk_data.folder(package)) for package in PACKAGES},
        }

    def keywords(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the keywords of each text. Raises `DataError` if NLTK's data are missing."""
        read = reader()
        return [order_keywords(self._find_keywords(text, read)) for text in texts]

    def _find_keywords(self, text: str, read: SentenceReader) -> Iterator[tuple[int, str]]:
        for sentence in read.sentences(text):
            yield from ((verb.start, text[verb.start : verb.end]) for verb in main_verbs(sentence))
            yield from ((start, text[start:end]) for start, end in names(text, sentence))


def names(text: str, sentence: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the spans of runs of proper nouns whose words are at most one space apart."""
    run: list[Token] = []
    for token in proper_nouns(sentence):
        if run and text[run[-1].end : token.start] not in {"", " "}:
            yield run[0].start, run[-1].end
            run = []
        run.append(token)
    if run:
        yield run[0].start, run[-1].end


def proper_nouns(sentence: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens tagged as proper nouns, except "I" and words capitalised only because they begin a sentence.

    A first word is not taken for a name if a pronoun, an article or a preposition follows: these do not follow a
    subject.
    """
    first = next((token for token in sentence if token.lower[0].isalnum()), None)
    for index, token in enumerate(sentence):
        next_tag = sentence[index + 1].tag if token is first and index + 1 < len(sentence) else ""
        is_name = token.tag in {"NNP", "NNPS"} and token.lower[0].isalnum() and token.lower != "i"
        if is_name and next_tag not in BEHIND_NO_NAME:
            yield token
