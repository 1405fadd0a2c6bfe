"""Who finds the keywords of a narrative: a spaCy pipeline, as for the paper, or NLTK's tagger.

Keywords are verbs that are no auxiliaries and named entities (Ghosh and Srivastava 2022, section 5.4): surface forms,
in text order, each once whatever its case. The case of the text is needed: it is what tells names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from figeval import nltk_data
from figeval.data.cache import digest
from figeval.errors import DataError
from figeval.spacy_pipeline import VARIABLE, installed_pipeline, pipeline_folder
from figeval.tagging import PACKAGES, Reader, Token, main_verbs, reader
from figeval.types import JSON

Found: TypeAlias = Iterable[tuple[int, str]]  # (place in the text, keyword)
RULES = 1  # raised when the rules, here or in tagging.py, find other keywords
BEHIND_NO_NAME = frozenset({"PRP", "PRP$", "DT", "TO", "IN"})


class Extractor(Protocol):
    """Finds keywords; `identity` is what goes into records and changes whenever they might."""

    @property
    def identity(self) -> JSON: ...  # noqa: D102
    def keywords(self, texts: Sequence[str]) -> list[tuple[str, ...]]: ...  # noqa: D102


def chosen() -> Extractor:
    """The pipeline that FIGEVAL_SPACY_MODEL names, else en_core_web_sm where both it and spaCy are installed, else
    NLTK's tagger; NLTK's also where the variable is there and empty.

    Raises:
        DataError: what was named is not there.
    """
    name = installed_pipeline()
    return NltkExtractor() if name is None else SpacyExtractor(pipeline_folder(name), name)


def in_order(found: Found) -> tuple[str, ...]:
    """Keywords by their place, each once whatever its case."""
    first: dict[str, str] = {}
    for _, keyword in sorted(found):
        first.setdefault(keyword.lower(), keyword)
    return tuple(first.values())


def folder_digest(folder: Path) -> str:
    """Twelve hex digits over names and contents of the files of a folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc")
    lines = [f"{file.relative_to(folder).as_posix()} {digest(file)}" for file in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


# ---- spaCy -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpacyExtractor:
    """Tokens with part of speech VERB (auxiliaries have another, AUX) and entities of any type."""

    folder: Path
    name: str

    @property
    def identity(self) -> JSON:
        """Version of spaCy; name, version and contents of the pipeline."""
        meta = json.loads((self.folder / "meta.json").read_text(encoding="utf-8"))
        pipeline = f"{meta['lang']}_{meta['name']} {meta['version']}"
        return {
            "extractor": "spacy",
            "version": version("spacy"),
            "rules": RULES,
            "data": {pipeline: folder_digest(self.folder)},
        }

    def keywords(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The keywords of each text.

        Raises:
            DataError: the pipeline cannot be loaded, or finds no parts of speech or no entities by its making.
        """
        import spacy

        try:
            nlp = spacy.load(self.name)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"spaCy cannot load {self.name!r} ({reason}); set {VARIABLE} to another one") from error
        docs = list(nlp.pipe(texts))
        for what, attribute in (("parts of speech", "POS"), ("named entities", "ENT_IOB")):
            if not any(doc.has_annotation(attribute) for doc in docs):
                raise DataError(f"the pipeline {self.name!r} sets no {what}; set {VARIABLE} to one that does")
        return [in_order(self._found(doc)) for doc in docs]

    def _found(self, doc: Any) -> Iterator[tuple[int, str]]:
        yield from ((token.idx, token.text) for token in doc if token.pos_ == "VERB")
        yield from ((entity.start_char, entity.text) for entity in doc.ents)


# ---- NLTK ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NltkExtractor:
    """Punkt's sentences, Penn tags of the averaged perceptron: verbs without auxiliaries, runs of proper nouns.

    Dates and numbers, entities for spaCy, are none here.
    """

    @property
    def identity(self) -> JSON:
        """Version of NLTK and contents of its data. Raises `DataError` where they are missing."""
        nltk_data.require(PACKAGES)
        return {
            "extractor": "nltk",
            "version": version("nltk"),
            "rules": RULES,
            "data": {package: folder_digest(nltk_data.folder(package)) for package in PACKAGES},
        }

    def keywords(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The keywords of each text. Raises `DataError` where NLTK's data are missing."""
        read = reader()
        return [in_order(self._found(text, read)) for text in texts]

    def _found(self, text: str, read: Reader) -> Iterator[tuple[int, str]]:
        for sentence in read.sentences(text):
            yield from ((verb.start, text[verb.start : verb.end]) for verb in main_verbs(sentence))
            yield from ((start, text[start:end]) for start, end in names(text, sentence))


def names(text: str, sentence: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Runs of proper nouns, as places in the text; one blank at most may part their words."""
    run: list[Token] = []
    for token in proper_nouns(sentence):
        if run and text[run[-1].end : token.start] not in {"", " "}:
            yield run[0].start, run[-1].end
            run = []
        run.append(token)
    if run:
        yield run[0].start, run[-1].end


def proper_nouns(sentence: Sequence[Token]) -> Iterator[Token]:
    """Tokens tagged as such, but for "I" and for what is merely capitalised because a sentence begins with it.

    That a first word is no name is told from what follows: a subject has no pronoun, article or preposition behind it.
    """
    first = next((token for token in sentence if token.lower[0].isalnum()), None)
    for place, token in enumerate(sentence):
        behind = sentence[place + 1].tag if token is first and place + 1 < len(sentence) else ""
        is_name = token.tag in {"NNP", "NNPS"} and token.lower[0].isalnum() and token.lower != "i"
        if is_name and behind not in BEHIND_NO_NAME:
            yield token
