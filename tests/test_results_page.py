"""docs/results.md: the commands that repeat the papers' tables, in their order, on few examples with tiny models."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.tiny import KINDS, Workshop
from tests.processes import figeval

PAGE = Path(__file__).resolve().parent.parent / "docs/results.md"
PAPERS = ("ePiC", "STORAL", "IMPLI")
COPY = "MINE"  # a folder that a user has
STORIES = "storal/english_pairs/storal_pairs.json"
MODELS = {
    "bert-base-uncased": ("bert", "ForMaskedLM", {"max_position_embeddings": 2048}),
    "roberta-base": ("roberta", "ForMaskedLM", {"max_position_embeddings": 2050}),
    "roberta-large": ("roberta", "ForMaskedLM", {"max_position_embeddings": 2050}),
    "bart-base": ("bart", "ForConditionalGeneration", {"max_position_embeddings": 2048}),
    "t5-base": ("t5", "ForConditionalGeneration", {}),
}
RUN_ELSEWHERE = ("benchmark analyze epic", "benchmark analyze storal")  # on all of the data, whatever the flags
FEW = {  # the first words of a command → what makes it quick
    "run": "--limit 8",
    "train": "--limit 40 --max_steps 2 --batch_size 4 --evaluate ''",
    "benchmark analyze impli": "--no_plots",
    "benchmark diagnose": "--no_plots",
    "benchmark curve": "--points 0 --regimes both --folds 1 --seeds 1 --nli 64 --epochs 1",
}


def commands(paper: str) -> list[str]:
    """Return the commands of a paper's table, each once."""
    table = PAGE.read_text(encoding="utf-8").split(f"| {paper} | command |")[1].split("\n\n")[0]
    return list(dict.fromkeys(re.findall(r"`figeval ([^`]+)`", table)))


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


def write_stories(folder: Path, texts: Path) -> None:
    """Write what post-training reads."""
    stories = [row["story"] for row in json.loads(texts.read_text(encoding="utf-8"))[:20]]
    (folder / "stories.txt").write_text("".join(" ".join(story.split()) + "\n" for story in stories), encoding="utf-8")


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
@pytest.mark.parametrize("paper", PAPERS)
def test_every_command_of_the_page_runs(paper: str, real_data: str, tmp_path: Path) -> None:
    write_models(tmp_path, Path(real_data, STORIES))
    write_stories(tmp_path, Path(real_data, STORIES))
    for command in commands(paper):
        words = shlex.split(command)
        if COPY in command or command.startswith(RUN_ELSEWHERE):
            continue
        if words[:2] == ["annotate", "import"]:
            fill_sheets(tmp_path / words[words.index("--to") + 1])
        print(command, flush=True)
        quick = next((options for name, options in FEW.items() if command.startswith(f"{name} ")), "")
        figeval(*words, *shlex.split(quick), cwd=tmp_path)
