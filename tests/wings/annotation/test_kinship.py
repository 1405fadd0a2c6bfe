"""Whether a judge is the author of the texts that it judges: by names, folders, weights and ancestors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval.records.schema import AncestorRecord, LineageRecord, ModelRecord
from figeval.wings.annotation.kinship import origin_of, relation
from tests.cli.conftest import Cli
from tests.plugins.tiny import Workshop

CASES = json.loads((Path(__file__).parents[2] / "golden" / "kinship.json").read_text("utf-8"))


def model(name: str, *, ancestors: tuple[str, ...] = (), **fields: Any) -> ModelRecord:
    line = [AncestorRecord(model=ancestor) for ancestor in ancestors]
    lineage = LineageRecord(ancestors=line, trained=0, chosen=0) if line else None
    return ModelRecord(name=name, backend=name.partition(":")[0], lineage=lineage, **fields)


@pytest.mark.parametrize("case", CASES, ids=[case["why"] for case in CASES])
def test_kinship(case: dict[str, Any]) -> None:
    assert relation(origin_of(model(**case["judge"])), origin_of(model(**case["author"]))) == case["how"]


def test_a_folder_is_the_same_under_every_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models" / "scribe").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "models" / "scribe")
    monkeypatch.chdir(tmp_path)
    absolute = str(tmp_path.resolve() / "models" / "scribe")
    for name in ("models/scribe", "./link", f"causal:{absolute}"):
        kinship = relation(origin_of(model(absolute)), origin_of(model(name)))
        assert kinship == f"is the judge itself, {absolute}"


@pytest.mark.slow
def test_a_copy_of_the_weights_is_recognised(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    first = Workshop(tmp_path)("llama", "ForCausalLM", max_position_embeddings=512)
    shutil.copytree(first, tmp_path / "copy")
    figeval.run("mini_narrative", str(first), limit=2, baselines=False, output_path="run", max_new_tokens=4)
    items = figeval.export_items("run", output="items", criteria="fluency=1-5", checks=0)
    (author,) = items.key.authors
    done = cli("annotate", "judge", "items", "--judge", "copy", "--name", "copy")
    assert done.code == 0, done.err
    warning = f"{author}, whose texts it judges, has the weights of the judge; models tend to prefer their own texts"
    assert warning in done.err
    assert warning in cli("annotate", "import", "--to", "items").out
