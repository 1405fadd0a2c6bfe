"""docs/papers.md: the commands of its tables, in their order, on few examples and with tiny models."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from tests.plugins.tiny import KINDS, Workshop
from tests.processes import figeval

PAGE = Path(__file__).resolve().parent.parent / "docs/papers.md"
SECTIONS = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
STATUSES = {"yes", "in part", "no"}
COPY = "MINE"  # a folder that a user has
STORIES = "storal/english_pairs/storal_pairs.json"
MODELS = {
    "bert-base-uncased": ("bert", "ForMaskedLM", {"max_position_embeddings": 2048}),
    "roberta-base": ("roberta", "ForMaskedLM", {"max_position_embeddings": 2050}),
    "roberta-large": ("roberta", "ForMaskedLM", {"max_position_embeddings": 2050}),
    "bart-base": ("bart", "ForConditionalGeneration", {"max_position_embeddings": 2048}),
    "t5-base": ("t5", "ForConditionalGeneration", {}),
    "gpt2": ("gpt2", "LMHeadModel", {"n_positions": 2048}),
}
FEW = {
    "run": ["--limit", "8"],
    "train": ["--limit", "40", "--max_steps", "2", "--batch_size", "4", "--evaluate", ""],
}


def rows(section: str) -> Iterator[list[str]]:
    """The cells of the rows of a section's table, without those of its head."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    for line in text.splitlines()[1:]:
        if line.startswith("| ") and not line.startswith(("| where", "| what")):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def commands(section: str) -> list[str]:
    cells = [cell for row in rows(section) for cell in row]
    return list(dict.fromkeys(text for cell in cells for text in re.findall(r"`figeval ([^`]+)`", cell)))


def whole_words(texts: Path) -> Any:
    """Return the tokenizer of a vocabulary of words: with pieces of words, real stories would be too long."""

    def make(specials: list[str]) -> Any:
        from tokenizers import Tokenizer, models, pre_tokenizers

        counts = Counter(re.findall(r"\w+|[^\w\s]", texts.read_text(encoding="utf-8")))
        names = [*specials, *sorted(word for word, count in counts.items() if count > 20 and word not in specials)]
        unknown = next((name for name in specials if "unk" in name.lower()), specials[0])
        tokenizer = Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}, unk_token=unknown))
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.add_special_tokens(specials)
        return tokenizer

    return make


def write_models(folder: Path, texts: Path) -> None:
    workshop = Workshop(folder / "checkpoints")
    for name, (kind, head, config) in MODELS.items():
        KINDS[f"{kind}-words"] = replace(KINDS[kind], tokenizer=whole_words(texts))
        checkpoint = workshop(f"{kind}-words", head, **config)
        settings = checkpoint / "tokenizer_config.json"
        settings.write_text(json.dumps(json.loads(settings.read_text()) | {"model_max_length": 2048}))
        (folder / name).symlink_to(checkpoint)


def write_files(folder: Path, texts: Path) -> None:
    """Write what commands read besides models: vectors of words, and stories."""
    stories = [row["story"] for row in json.loads(texts.read_text(encoding="utf-8"))[:20]]
    (folder / "stories.txt").write_text("".join(" ".join(story.split()) + "\n" for story in stories), encoding="utf-8")
    vectors = {word: pack("<2f", len(word), 1) for word in re.findall(r"\w+", " ".join(stories).lower())}
    lines = b"".join(word.encode() + b" " + numbers + b"\n" for word, numbers in vectors.items())
    (folder / "vectors.bin").write_bytes(f"{len(vectors)} 2\n".encode() + lines)


def fill_sheets(items: Path) -> None:
    """Fill in the sheets of a folder of `figeval annotate`, as annotators do who agree on everything."""
    key = json.loads((items / "key.json").read_text(encoding="utf-8"))
    labels = {name: ["no", "yes"] for name in key["error_types"]}
    labels |= {criterion["name"]: criterion["labels"] for criterion in key["criteria"]}
    for sheet in items.glob("sheet_*.csv"):
        with sheet.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        with sheet.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            for row in rows:
                answers = {name: names[int(row["item"]) % len(names)] for name, names in labels.items()}
                writer.writerow(row | answers)


@pytest.mark.slow
@pytest.mark.usefixtures("warm_start")
@pytest.mark.parametrize("section", SECTIONS)
def test_every_command_of_the_page_runs(section: str, real_data: str, tmp_path: Path) -> None:
    write_models(tmp_path, Path(real_data, STORIES))
    write_files(tmp_path, Path(real_data, STORIES))
    for command in commands(section):
        words = shlex.split(command)
        if COPY in command:
            continue
        if words[:2] == ["annotate", "import"]:
            fill_sheets(tmp_path / words[words.index("--to") + 1])
        print(command, flush=True)
        figeval(*words, *FEW.get(words[0], []), cwd=tmp_path)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_row_has_a_status_and_says_what_differs(section: str) -> None:
    for *_, status, difference in rows(section):
        assert status in STATUSES
        assert status == "yes" or difference
