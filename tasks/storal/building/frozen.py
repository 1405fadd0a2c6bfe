"""Builder of the frozen items of the built-in English tasks.

`tasks/storal/items/` holds ids, positions and replacement words; the texts are STORAL's and are not stored.
`items.json` has the checksum of each file, the seed and the versions of the packages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from figeval.errors import FigevalError
from figeval.types import JSON

from ..pairs import SPLITS, Pair
from . import items, topics
from .antonyms import WordNetAntonyms

SEED = 0
TOPICS = 24  # the paper's number: no number up to 60 gives every topic a specificity above 0.5 (README.md)
PACKAGES = ("jieba", "python-rake", "lemminflect", "nltk", "numpy", "rapidfuzz", "scikit-learn", "scipy", "simplemma")


def frozen_items(pairs: Sequence[Pair]) -> tuple[dict[str, str], JSON]:
    """Return the content of each file of items by its name, and the record for `items.json`.

    Raises:
        DataError: a package of the extra `storal`, or WordNet, is missing.
    """
    by_split = {split: [pair for pair in pairs if pair.split == split] for split in SPLITS}
    model = topics.learn([pair.moral for pair in by_split["train"]], "en", SEED, count=TOPICS)
    lines: dict[str, list[JSON]] = {f"{kind}_en.jsonl": [] for kind in ("mocpt", "mopref", "mo2st", "preference")}
    rules, dropped, without_versions = {}, {}, {}
    for split, split_pairs in by_split.items():
        mocpt = items.mocpt(split_pairs, model.of([pair.moral for pair in split_pairs]), SEED)
        mopref = items.mopref(split_pairs, WordNetAntonyms(), SEED)
        lines["mocpt_en.jsonl"] += mocpt.items
        lines["mopref_en.jsonl"] += mopref.items
        lines["mo2st_en.jsonl"] += [items.mo2st(pair, "en", SEED) for pair in split_pairs]
        preference = items.preference(split_pairs, SEED)
        lines["preference_en.jsonl"] += preference.items
        rules[split], dropped[split], without_versions[split] = mocpt.notes, mopref.notes, preference.notes
    texts = {name: "".join(json.dumps(item) + "\n" for item in file_items) for name, file_items in lines.items()}
    record = {
        "files": {
            name: {"items": len(lines[name]), "sha256": hashlib.sha256(text.encode()).hexdigest()}
            for name, text in texts.items()
        },
        "seed": SEED,
        "topics": TOPICS,
        "mocpt": rules,
        "mopref_dropped": dropped,
        "preference_dropped": without_versions,
        "packages": {package: version(package) for package in PACKAGES},
    }
    return texts, record


def freeze(pairs: Sequence[Pair], output: Path) -> JSON:
    """Write the items and `items.json` to a folder and return the record.

    Raises:
        FigevalError: a package is missing, or the folder cannot be written.
    """
    texts, record = frozen_items(pairs)
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, text in {**texts, "items.json": json.dumps(record, indent=2) + "\n"}.items():
            (output / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise FigevalError(f"cannot write {output} ({error.strerror}); choose another --output") from error
    return record
