"""Builder of the tasks, stage by stage; stories are read one by one, so that they are never all in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from figeval import plugins
from figeval.data.building import Stages, Writers, checksum, package_versions
from figeval.data.row_files import read_rows
from figeval.data.text_files import text_lines
from figeval.errors import DataError, FigevalError
from figeval.io.text import pluralize
from figeval.models.model import Backends, open_model
from figeval.task_types.choice import ChoiceExample
from figeval.types import JSON

from .. import extras
from ..pairs import PAPER_MOPREF, PAPER_SIZES, Pair, PairFile
from ..preference.options import options_of
from . import items, topics
from .antonyms import Antonyms, WordNetAntonyms, read_antonyms
from .audits import MAX_BLIND_ITEMS, MAX_SCORED_ITEMS, apply_blind_rules, count_ambiguous
from .index import Index
from .negatives import OPTIONS, normalize
from .task_files import CHOICES, PAPER, data_file

VERSION = 2  # of the rules; stages made by an older version are made again
SCORERS = ("tfidf", "minilm")  # models for the audit of moCpt's negatives
AUDIT = "audit"  # the stage after all tasks
PACKAGES = ("jieba", "python-rake", "lemminflect", "nltk", "scikit-learn", "simplemma", "numpy")


@dataclass(frozen=True)
class StoralOptions:
    """Options of a build; `tasks` is in the order of `task_files.KINDS`."""

    file: PairFile
    language: str
    name: str
    seed: int = 0
    tasks: tuple[str, ...] = PAPER
    topics: int | None = None
    antonyms: Path | None = None
    stop_words: Path | None = None
    deduplicate: bool = False
    compare: tuple[PairFile, ...] = ()

    @cached_property
    def antonym_source(self) -> Antonyms:
        """Source of antonyms: the given list, or else WordNet."""
        return read_antonyms(self.antonyms, self.language) if self.antonyms else WordNetAntonyms()

    @cached_property
    def stop_list(self) -> tuple[str, ...] | None:
        """Words of the given stop list, or None if there is none."""
        if self.stop_words is None:
            return None
        return tuple(word for line in text_lines(self.stop_words) if (word := line.strip()))


@contextmanager
def errors_in(source: object) -> Iterator[None]:
    """Prepend the name of a file to errors about its content."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{source}: {error}") from error


def stage_key(options: StoralOptions) -> JSON:
    """Return the values that every stage depends on."""
    return {
        "version": VERSION,
        "pairs": checksum(options.file.path),
        "columns": dict(options.file.columns),
        "language": options.language,
        "seed": options.seed,
        "deduplicate": options.deduplicate,
        "packages": package_versions(PACKAGES),
    }


class StoralBuilder:
    """Builder that runs the stages in order."""

    def __init__(self, options: StoralOptions, index: Index, stages: Stages) -> None:
        self._options, self._index, self._stages = options, index, stages
        self._splits = tuple(index.by_split)

    def report(self) -> JSON:
        """Make all tasks and return the report.

        Raises:
            FigevalError: the tasks cannot be made from the pairs. The message is one line.
        """
        options, index = self._options, self._index
        by_kind = {kind: self._stage(kind) for kind in options.tasks}
        sizes = {"pairs": {split: len(pairs) for split, pairs in index.by_split.items()}}
        paper = {kind: PAPER_SIZES.get(options.language, {}) for kind in ("pairs", *PAPER)}
        report: JSON = {
            "language": options.language,
            "seed": options.seed,
            "tasks": list(options.tasks),
            "sizes": sizes | {kind: notes["sizes"] for kind, notes in by_kind.items()},
            "paper_sizes": paper | {"mopref": PAPER_MOPREF.get(options.language, {})},
            "duplicates": index.duplicates(),
            "overlap": {other.path.name: index.overlap(other.pairs()) for other in options.compare},
            **{kind: notes["notes"] for kind, notes in by_kind.items() if notes["notes"]},
        }
        return report | self._stages.run(AUDIT, list(by_kind), (), self._audit)

    def _stage(self, kind: str) -> JSON:
        options = self._options
        make, dependencies = {
            "mocpt": (self._mocpt, [options.topics]),
            "mopref": (self._mopref, [checksum(options.antonyms)]),
            "st2mo": (self._st2mo, []),
            "mo2st": (self._mo2st, [checksum(options.stop_words)]),
            "preference": (self._preference, []),
        }[kind]
        names = [data_file(kind, split) for split in self._splits]
        return self._stages.run(kind, [kind, dependencies], names, make)

    def _mocpt(self, writers: Writers) -> JSON:
        options, by_split = self._options, self._index.by_split
        if "train" not in by_split:
            raise DataError(
                f"{options.file.path}: no pair is in the split 'train', from whose morals the topics are derived"
            )
        for split, pairs in by_split.items():
            different = len({normalize(pair.moral) for pair in pairs})
            if different < OPTIONS:
                raise DataError(
                    f"{options.file.path}: the split {split!r} has only {different} different morals, and every "
                    f"item of mocpt has {OPTIONS}; add pairs, or leave mocpt out of --tasks"
                )
        with errors_in(options.file.path):
            model = self._topics([pair.moral for pair in by_split["train"]])
        items_by_id: dict[str, JSON] = {}
        rules, shares = {}, []
        for split, pairs in by_split.items():
            of_split = model.of([pair.moral for pair in pairs])
            with errors_in(f"{options.file.path}, split {split!r}"):
                choices = items.mocpt(pairs, of_split, options.seed)
            rules[split] = choices.notes
            items_by_id |= {item["id"]: item for item in choices.items}
            if split == "train":
                shares = (np.bincount(of_split, minlength=model.count) / len(pairs)).round(6).tolist()
        morals = {pair.id: pair.moral for pairs in by_split.values() for pair in pairs}

        def row(pair: Pair) -> JSON:
            item = items_by_id[pair.id]
            return {
                **self._shared_fields(pair),
                "options": [morals[option] for option in item["options"]],
                "gold": item["gold"],
                "option_ids": item["options"],
                "topics": item["topics"],
            }

        return {
            "sizes": self._write("mocpt", writers, row),
            "notes": {
                "count": model.count,
                "by_rule": model.by_rule,
                "vocabulary": model.vocabulary,
                "given": options.topics is not None,
                "shares": shares,
                "specificity": model.specificity,
                "words": model.words,
                "rules": rules,
            },
        }

    def _topics(self, morals: list[str]) -> topics.Topics:
        options, observer = self._options, self._stages.observer
        max_topics = options.topics or topics.MAX_TOPICS
        observer.start("topics", max_topics, unit="number", note=f"of {pluralize(len(morals), 'moral')}")
        model = topics.learn(
            morals,
            options.language,
            options.seed,
            count=options.topics,
            progress=observer.reach,
        )
        observer.end(f"{model.count}")
        return model

    def _mopref(self, writers: Writers) -> JSON:
        options = self._options
        items_by_id, dropped = self._choose_items(
            lambda pairs: items.mopref(pairs, options.antonym_source, options.seed),
            "no word of any moral has an antonym; leave mopref out of --tasks",
        )

        def row(pair: Pair) -> JSON | None:
            if (item := items_by_id.get(pair.id)) is None:
                return None
            start, end = item["place"]
            options = [f"{pair.moral[:start]}{item['word']}{pair.moral[end:]}"]
            options.insert(item["gold"], pair.moral)
            word = pair.moral[start:end]
            return {
                **self._shared_fields(pair),
                "options": options,
                "gold": item["gold"],
                "replaced": word,
                "by": item["word"],
            }

        return {"sizes": self._write("mopref", writers, row), "notes": dropped}

    def _preference(self, writers: Writers) -> JSON:
        items_by_id, dropped = self._choose_items(
            lambda pairs: items.preference(pairs, self._options.seed),
            "no word of any moral has a synonym and an antonym; leave preference out of --tasks",
        )

        def row(pair: Pair) -> JSON | None:
            item = items_by_id.get(pair.id)
            return None if item is None else {**self._shared_fields(pair), **options_of(pair.moral, item)}

        return {"sizes": self._write("preference", writers, row), "notes": dropped}

    def _choose_items(
        self, choose: Callable[[Sequence[Pair]], items.Choices], message: str
    ) -> tuple[dict[str, JSON], JSON]:
        """Return the items of all splits by id, and the number of dropped pairs by split and reason.

        Raises:
            DataError: there is no item; `message` says why and what to do.
        """
        choices_by_split = {split: choose(pairs) for split, pairs in self._index.by_split.items()}
        items_by_id = {item["id"]: item for choices in choices_by_split.values() for item in choices.items}
        if not items_by_id:
            raise DataError(f"{self._options.file.path}: {message}")
        return items_by_id, {split: choices.notes for split, choices in choices_by_split.items()}

    def _st2mo(self, writers: Writers) -> JSON:
        return {
            "sizes": self._write("st2mo", writers, lambda pair: {**self._shared_fields(pair), "moral": pair.moral}),
            "notes": {},
        }

    def _mo2st(self, writers: Writers) -> JSON:
        options = self._options
        notes: dict[str, Counter[str]] = {split: Counter() for split in self._splits}

        def row(pair: Pair) -> JSON | None:
            item = items.mo2st(pair, options.language, options.seed, options.stop_list)
            if item["rest"] == len(pair.story):
                notes[pair.split]["dropped: the beginning is the whole story"] += 1
                return None
            if not item["outline"]:
                notes[pair.split]["kept: no phrase for an outline"] += 1
            return {
                "id": pair.id,
                "moral_group": self._index.moral_groups[pair.id],
                "moral": pair.moral,
                "beginning": pair.story[: item["beginning"]],
                "outline": [pair.story[start:end].lower() for start, end in item["outline"]],
                "story": pair.story[item["rest"] :],
            }

        return {"sizes": self._write("mo2st", writers, row), "notes": {split: {**n} for split, n in notes.items()}}

    def _write(self, kind: str, writers: Writers, row: Callable[[Pair], JSON | None]) -> dict[str, int]:
        """Write the rows of a task and return their number in each split."""
        total = sum(map(len, self._index.by_split.values()))
        observer, sizes = self._stages.observer, dict.fromkeys(self._splits, 0)
        observer.start(kind, total, unit="pair")
        for number, pair in enumerate(self._index.with_stories(), 1):
            if (content := row(pair)) is not None:
                writers.write(data_file(kind, pair.split), content)
                sizes[pair.split] += 1
            observer.reach(number)
        observer.end(pluralize(sum(sizes.values()), "item"))
        return sizes

    def _shared_fields(self, pair: Pair) -> JSON:
        return {"id": pair.id, "moral_group": self._index.moral_groups[pair.id], "story": pair.story}

    # ---- audits ------------------------------------------------------------------------------------------------------

    def _audit(self, _: Writers) -> JSON:
        observer = self._stages.observer
        rules: JSON = {}
        for kind in CHOICES:
            if kind in self._options.tasks:
                rules[kind] = {}
                for split in self._splits:
                    observer.say(f"audit: {kind}, {split}")
                    examples = list(self._examples(kind, split, MAX_BLIND_ITEMS, stories=False))
                    rules[kind][split] = apply_blind_rules(examples, self._options.seed) if len(examples) > 1 else []
        ambiguity: JSON = {}
        if "mocpt" in self._options.tasks:
            examples = list(self._examples("mocpt", self._splits[-1], MAX_SCORED_ITEMS, stories=True))
            for name in SCORERS:
                observer.say(f"audit: {name}")
                try:
                    ambiguity[name] = count_ambiguous(
                        examples, open_model(Backends(plugins.plugin_manager()), name, {})
                    )
                except FigevalError as error:
                    ambiguity[name] = {"missing": str(error)}
        return {"rules": rules, "ambiguous": ambiguity}

    def _examples(self, kind: str, split: str, max_items: int, *, stories: bool) -> Iterator[ChoiceExample]:
        """Yield the first items of a built task; with `stories`, Chinese texts are segmented into words by blanks."""
        chinese = stories and self._options.language == "zh"
        for row in islice(read_rows(self._stages.folder / data_file(kind, split)), max_items):
            texts = [row["story"] if stories else "", *row["options"]]
            story, *options = [" ".join(extras.segments(text)) for text in texts] if chinese else texts
            yield ChoiceExample(
                id=row["id"], query=story, options=tuple(options), gold=row["gold"], cluster=row["moral_group"]
            )
