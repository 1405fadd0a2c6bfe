"""The command `figeval benchmark build epic-mcq`, which chooses the distractors of epic_mcq and epic_mcq_random.

The items are frozen as ids. README.md in this folder explains the procedure and describes the frozen items.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from figeval.errors import CapabilityError, FigevalError
from figeval.io.files import cure
from figeval.types import JSON, Text, TextPair

from .duplicates import read_lists

if TYPE_CHECKING:
    from figeval.models.model import Model
    from figeval.task_types.ranking import RankingExample

    from .distractors import Scores

STEPS = 1000
SPLIT = "retrieval_seen_test"  # the narratives of the paper's items, Table 10
VERSIONS = {"mcq": 3, "mcq_random": 2}  # of the tasks that use these items
RULES = {
    "mcq": (
        "Distractors as close to the right proverb as possible in the scorers' scores (standardised within a "
        "narrative) and in a score by spelling (cosine of TF-IDF weighted character n-grams). Then swaps between items "
        "of a block, until the right option is as good as a fair draw from the five by rank, level and distance from "
        "the mean of every score, by likeness to the other options and by length, and by any two of these (balance.py)."
    ),
    "mcq_random": "Distractors: random costs for every narrative and proverb, drawn from the seed.",
}
BALANCE = (
    "In each block of narratives (one of every proverb) and for each of the four distractors, proverbs are assigned to "
    "narratives one to one, so that every proverb is wrong 16 times and right 4 times. "
    "In each block the gold option stands at every place equally often."
)
EXCLUSION = "No two options of an item are near-duplicates (near_duplicates.json)."


@dataclass(frozen=True, slots=True)
class Material:
    """The narratives that items are made from, and the proverbs that serve as options; all lower-cased."""

    ids: tuple[str, ...]
    narratives: tuple[str, ...]
    gold: tuple[int, ...]  # index into proverbs, parallel to narratives
    proverb_ids: tuple[str, ...]
    proverbs: tuple[str, ...]

    def examples(self) -> list[RankingExample]:
        """Return the examples from which a scorer may learn its word weights."""
        from figeval.task_types.ranking import RankingExample

        return [
            RankingExample(id=key, query=text, candidates=self.proverbs, relevant=frozenset({gold}))
            for key, text, gold in zip(self.ids, self.narratives, self.gold, strict=True)
        ]


@click.command("epic-mcq")
@click.option(
    "--scorers", default="tfidf,overlap,glove,minilm", show_default=True, help="Models whose scores are balanced."
)
@click.option(
    "--seed",
    default=20220522,
    show_default=True,
    help="Random seed for distractors and the order of options.",
)
@click.option(
    "--steps",
    default=STEPS,
    show_default=True,
    type=click.IntRange(1),
    help="Steps of each round of the search; fewer are faster and less balanced.",
)
@click.option("--output", default=".", show_default=True, type=click.Path(path_type=Path), help="Folder to write to.")
def epic_mcq(scorers: str, seed: int, steps: int, output: Path) -> None:
    """Choose the distractors of epic_mcq and epic_mcq_random, as ids only."""
    names = [name.strip() for name in scorers.split(",") if name.strip()]
    for kind, record in build(names, seed, steps, output).items():
        audit = record["audit"]
        click.echo(f"{output / kind}_items.jsonl  {record['items']} items")
        for name, share in audit["scorers"].items():
            click.echo(f"  {name}: gold rated highest {share['highest']:.3f}, lowest {share['lowest']:.3f}")


def build(scorers: Sequence[str], seed: int, steps: int, output: Path) -> dict[str, JSON]:
    """Write `mcq{,_random}_items.{jsonl,json}` to a folder and return the records (the .json files) by kind.

    Raises:
        FigevalError: a scorer is missing, unknown or can neither embed nor score pairs, there is no data, or the files
            cannot be written.
    """
    if not scorers:
        raise FigevalError("--scorers is empty; name at least one model, for example, tfidf,overlap,minilm")
    with cure(output, "--output"):
        output.mkdir(parents=True, exist_ok=True)
    material = read_material()
    models = {name: open_scorer(name) for name in scorers}
    scores = {name: score_all(model, material) for name, model in models.items()}
    fingerprints = [{"name": name, "fingerprint": models[name].fingerprint()} for name in models]
    shared = {"seed": seed, "steps": steps, "scorers": fingerprints}
    records = {}
    for kind, wrong_proverbs in choose_distractors(material, scores, seed, steps).items():
        lines = items(material, wrong_proverbs, seed)
        file, text = output / f"{kind}_items.jsonl", "".join(json.dumps(line) + "\n" for line in lines)
        _save(file, text)
        summary = {"file": file.name, "items": len(lines), "sha256": hashlib.sha256(text.encode()).hexdigest()}
        rule = f"{RULES[kind]} {BALANCE} {EXCLUSION}"
        audit_record = audit(scores, material, lines)
        records[kind] = {**summary, "version": VERSIONS[kind], **shared, "rule": rule, "audit": audit_record}
        _save(output / f"{kind}_items.json", json.dumps(records[kind], indent=2) + "\n")
    return records


def choose_distractors(
    material: Material, scores: Mapping[str, Scores], seed: int, steps: int
) -> dict[str, list[list[int]]]:
    """Return the indexes of the four wrong proverbs of every narrative, by kind."""
    import numpy as np

    from . import balance, distractors

    alike = distractors.alike_matrix(material.proverb_ids, read_lists()["groups"])
    gold = np.array(material.gold)
    spelling = balance.letter_cosines(material.narratives, material.proverbs)
    cues = balance.read_cues([*scores.values(), spelling], gold, material.proverbs)
    random_costs = distractors.uniform(seed, material.ids, len(material.proverbs))
    return {
        "mcq": balance.Search(cues, gold, alike, seed).run(steps),
        "mcq_random": distractors.assign_distractors(random_costs, gold, alike),
    }


def read_material() -> Material:
    """Return the narratives of the seen test split and all 250 proverbs."""
    from figeval.data import DataContext
    from figeval.data.cache import fetch

    from . import epic_rows

    split = list(epic_rows.open(SPLIT, DataContext(files(__package__), fetch)))
    ids_by_index = {row["relevant"]: row["proverb_id"] for row in split}  # every proverb has test narratives
    return Material(
        ids=tuple(row["id"] for row in split),
        narratives=tuple(row["narrative_lower"] for row in split),
        gold=tuple(row["relevant"] for row in split),
        proverb_ids=tuple(ids_by_index[index] for index in range(len(ids_by_index))),
        proverbs=tuple(split[0]["candidates_lower"]),
    )


def score_all(model: Model, material: Material) -> Scores:
    """Return scores of shape (narratives, proverbs): cosines of embeddings, or pair scores if it cannot embed.

    Raises:
        CapabilityError: the model can neither embed nor score pairs.
    """
    import numpy as np

    from figeval.models.capabilities import ask
    from figeval.task_types.routes import cosines

    if model.learns:
        model.fit(material.examples())
    if "embed" in model.offers:
        texts = [
            *(Text(narrative, "query") for narrative in material.narratives),
            *(Text(proverb, "document") for proverb in material.proverbs),
        ]
        vectors = np.asarray(ask(model.backend, texts).values, dtype=np.float64)
        narratives, proverbs = np.split(vectors, [len(material.narratives)])
        return np.stack([cosines(narrative, list(proverbs)) for narrative in narratives])
    if "score_pairs" not in model.offers:
        raise CapabilityError(f"{model.name} can neither embed nor score pairs; leave it out of --scorers")
    pairs = [TextPair(left, right) for left in material.narratives for right in material.proverbs]
    return np.asarray(ask(model.backend, pairs).values, dtype=np.float64).reshape(len(material.ids), -1)


def items(material: Material, wrong_proverbs: Sequence[Sequence[int]], seed: int) -> list[JSON]:
    """Return `{"id", "options", "gold"}` for each narrative: proverb ids, and the index of the gold one.

    The items come block by block (see `distractors.blocks`), so that the first 250, 500 or 750 are balanced, too.
    Within a block, the seed determines the order of the items, the position of the gold option and the order of the
    others.
    """
    import numpy as np

    from . import distractors

    item_records = []
    for number, block in enumerate(distractors.blocks(np.array(material.gold))):
        generator = random.Random(f"{seed} block {number}")
        order = generator.sample(list(map(int, block)), len(block))
        gold_positions = [index % (distractors.SLOTS + 1) for index in range(len(order))]
        generator.shuffle(gold_positions)
        for narrative, gold_position in zip(order, gold_positions, strict=True):
            options = generator.sample(list(wrong_proverbs[narrative]), len(wrong_proverbs[narrative]))
            options.insert(gold_position, material.gold[narrative])
            names = [material.proverb_ids[option] for option in options]
            item_records.append({"id": material.ids[narrative], "options": names, "gold": gold_position})
    return item_records


def audit(scores: Mapping[str, Scores], material: Material, lines: Sequence[JSON]) -> JSON:
    """Return for each scorer the share of items whose right option it rates highest and lowest, and median ranks.

    Ties count by expectation. The ranks are those of right options and of distractors among all proverbs, from 1.
    """
    import numpy as np

    from . import distractors

    proverb_index = {name: index for index, name in enumerate(material.proverb_ids)}
    rows = {key: row for row, key in enumerate(material.ids)}
    order = [rows[line["id"]] for line in lines]
    right = np.array([material.gold[row] for row in order])[:, None]
    options = np.array([[proverb_index[name] for name in line["options"]] for line in lines])
    wrong = options[options != right].reshape(len(lines), -1)
    shares = {name: distractors.strength(matrix[order], right, wrong) for name, matrix in scores.items()}
    return {"scorers": shares, "chance": 1 / options.shape[1]}


def open_scorer(name: str) -> Model:
    """Open the model that `--model` would open under this name."""
    from figeval import plugins
    from figeval.models.model import Backends, open_model

    return open_model(Backends(plugins.plugin_manager()), name, {})


def _save(path: Path, text: str) -> None:
    with cure(path, "--output"):
        path.write_text(text, encoding="utf-8", newline="\n")
