"""Builder of the pairs, kind by kind; sentences are read one by one, so that they are never all in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from figeval.data.building import Stages, Writers, checksum, package_versions
from figeval.data.row_files import RowFile, read_rows
from figeval.errors import DataError
from figeval.io.text import pluralize
from figeval.types import JSON

from ..idioms import Lexicon, Occurrence
from ..impli_rows import premise_key
from .inputs import Glossary, Sentence, read_sentences
from .kinds import KINDS, METAPHORS, Derivation, Kind, Located, Maker, locate
from .phrases import Rejected
from .wrong import Impostors

VERSION = 2  # of the rules; stages made by an older version are made again
PACKAGES = ("lemminflect", "nltk", "rapidfuzz", "scikit-learn")
LOCATED = "located.jsonl"  # position of each idiom and each metaphorical word
NOT_LOCATED = "located_rejected.jsonl"
MAX_SENTENCE_CHARS = 2000

TOO_LONG = f"the sentence has more than {MAX_SENTENCE_CHARS} characters"
ALONE = "the sentence consists only of the idiom or word"
REPEATED = "another row about the same idiom has the same sentence"
FIGURATIVE_AND_LITERAL = "the sentence is figurative in one row and literal in another"
REPEATED_PAIR = "the same pair was made from another row"


@dataclass(frozen=True, slots=True)
class PairOptions:
    """Options of a build; `kinds` is in the order of `KINDS`."""

    sentences: RowFile
    definitions: RowFile
    name: str
    seed: int = 0
    kinds: tuple[str, ...] = tuple(KINDS)


def pair_file(kind: str) -> str:
    return f"{kind}.jsonl"


def stage_key(options: PairOptions) -> JSON:
    """Return the values that every stage depends on."""
    files = {"sentences": options.sentences, "definitions": options.definitions}
    return {
        "version": VERSION,
        **{name: [checksum(file.path), dict(file.columns)] for name, file in files.items()},
        "seed": options.seed,
        "packages": package_versions(PACKAGES),
    }


class PairBuilder:
    """Builder that runs the stages in order."""

    def __init__(self, options: PairOptions, glossary: Glossary, stages: Stages) -> None:
        self._options, self._glossary, self._stages = options, glossary, stages

    def report(self) -> JSON:
        """Make all kinds and return the report.

        Raises:
            FigevalError: a row of a file is wrong, or no pair can be made. The message is one line.
        """
        options, glossary = self._options, self._glossary
        location_notes = self._stages.run("located", [], [LOCATED, NOT_LOCATED], self._locate)
        maker = Maker(glossary, Impostors(glossary), options.seed)
        kind_notes = {kind: self._kind(kind, maker) for kind in options.kinds}
        if not any(notes["pairs"] for notes in kind_notes.values()):
            reasons: Counter[str] = Counter(location_notes["rejected"])
            for notes in kind_notes.values():
                reasons.update(notes["rejected"])
            main_reason = f", mostly: {reasons.most_common(1)[0][0]}" if reasons else ""
            hint = f"{self._stages.folder / '*_rejected.jsonl'} list the reasons{main_reason}"
            raise DataError(f"{options.sentences.path}: no pair can be made from it; {hint}")
        return {
            "seed": options.seed,
            "definitions": {
                "idioms": len(glossary.senses),
                "with_several": sum(len(senses) > 1 for senses in glossary.senses.values()),
            },
            "located": location_notes,
            "kinds": kind_notes,
        }

    # ---- sentences ---------------------------------------------------------------------------------------------------

    def _locate(self, writers: Writers) -> JSON:
        """Locate the idiom or word of each sentence, and write the positions and the rejected sentences."""
        lexicon, observer = Lexicon(self._glossary.lines.values()), self._stages.observer
        total, labels = self._labels()
        observer.start("sentences", total, unit="sentence")
        rejected: Counter[str] = Counter()
        read: Counter[str] = Counter()
        seen: set[tuple[str, str, int]] = set()
        names: set[str] = set()
        for number, sentence in enumerate(read_sentences(self._options.sentences), 1):
            read["metaphor" if sentence.metaphor else sentence.label] += 1
            try:
                located = self._locate_sentence(sentence, lexicon, labels)
                key = (premise_key(sentence.text), located.occurrence.name, located.occurrence.start)
                if key in seen:
                    raise Rejected(REPEATED)
            except Rejected as error:
                rejected[error.reason] += 1
                writers.write(NOT_LOCATED, _rejection(sentence, "", error.reason))
            else:
                seen.add(key)
                names |= {located.occurrence.name} if not sentence.metaphor else set()
                writers.write(LOCATED, {"sentence": asdict(sentence), "found": asdict(located.occurrence)})
            observer.reach(number)
        observer.end(f"an idiom or word found in {len(seen)} of {total}")
        return {"read": dict(read), "found": len(seen), "idioms": len(names), "rejected": _sort_counts(rejected)}

    def _labels(self) -> tuple[int, Mapping[str, set[str]]]:
        """Return the number of sentences, and the labels given to each sentence about an idiom."""
        total, labels = 0, dict[str, set[str]]()
        for sentence in read_sentences(self._options.sentences):
            total += 1
            if not sentence.metaphor:
                labels.setdefault(_subject(sentence), set()).add(sentence.label)
        if not total:
            raise DataError(f"{self._options.sentences.path}: it contains no sentences")
        return total, labels

    def _locate_sentence(self, sentence: Sentence, lexicon: Lexicon, labels: Mapping[str, set[str]]) -> Located:
        if len(sentence.text) > MAX_SENTENCE_CHARS:
            raise Rejected(TOO_LONG)
        if not sentence.metaphor and len(labels[_subject(sentence)]) > 1:
            raise Rejected(FIGURATIVE_AND_LITERAL)
        located = locate(sentence, self._glossary, lexicon)
        around = sentence.text[: located.occurrence.start] + sentence.text[located.occurrence.end :]
        if sum(map(str.isalpha, around)) < 2:
            raise Rejected(ALONE)
        return located

    def _read(self, kind: str) -> Iterator[Located]:
        for row in read_rows(self._stages.folder / LOCATED):
            span, words = row["sentence"].pop("span"), row["found"].pop("words")
            sentence = Sentence(**row["sentence"], span=span and tuple(span))
            if bool(sentence.metaphor) == (kind == METAPHORS) and (
                sentence.label == KINDS[kind].meant or sentence.metaphor
            ):
                yield Located(sentence, Occurrence(**row["found"], words=tuple(map(tuple, words))))

    # ---- pairs -------------------------------------------------------------------------------------------------------

    def _kind(self, name: str, maker: Maker) -> JSON:
        files = [pair_file(name), f"{name}_rejected.jsonl"]
        return self._stages.run(name, [name], files, lambda writers: self._pairs(name, maker, writers))

    def _pairs(self, name: str, maker: Maker, writers: Writers) -> JSON:
        kind, observer = KINDS[name], self._stages.observer
        total = sum(1 for _ in self._read(name))
        observer.start(name, total, unit="sentence")
        rejected: Counter[str] = Counter()
        seen: set[str] = set()
        idioms: Counter[str] = Counter()
        changed = 0
        for number, located in enumerate(self._read(name), 1):
            try:
                derivation = kind.derive(maker, located)
                if (key := premise_key(located.sentence.text) + premise_key(derivation.hypothesis)) in seen:
                    raise Rejected(REPEATED_PAIR)
            except Rejected as error:
                rejected[error.reason] += 1
                writers.write(
                    f"{name}_rejected.jsonl", _rejection(located.sentence, located.occurrence.name, error.reason)
                )
            else:
                seen.add(key)
                idioms[located.occurrence.name] += 1
                changed += bool(derivation.provenance["changes"])
                writers.write(pair_file(name), _row(name, kind, located, derivation))
            observer.reach(number)
        observer.end(pluralize(len(seen), "pair"))
        notes = {"sentences": total, "pairs": len(seen), "idioms": len(idioms), "changed": changed}
        return {**notes, "most_of_one": max(idioms.values(), default=0), "rejected": _sort_counts(rejected)}


def _row(name: str, kind: Kind, located: Located, derivation: Derivation) -> JSON:
    sentence, occurrence = located.sentence, located.occurrence
    return {
        "id": f"{name}-{sentence.id}",
        "premise": sentence.text,
        "hypothesis": derivation.hypothesis,
        "label": kind.label,
        "kind": name,
        "figure": "metaphor" if name == METAPHORS else "idiom",
        "idiom": occurrence.name,
        "idiom_start": occurrence.start,
        "idiom_end": occurrence.end,
        "premise_key": premise_key(sentence.text),
        "provenance": {
            "row": sentence.row,
            "surface": occurrence.surface,
            "definition": derivation.definition,
            **derivation.provenance,
        },
    }


def _rejection(sentence: Sentence, idiom: str, reason: str) -> JSON:
    return {"id": sentence.id, "row": sentence.row, "idiom": idiom or sentence.idiom, "reason": reason}


def _subject(sentence: Sentence) -> str:
    """Return a key that is equal for two rows whose labels may contradict each other."""
    return f"{premise_key(sentence.text)} {sentence.idiom.casefold()} {sentence.span}"


def _sort_counts(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
