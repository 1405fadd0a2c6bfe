"""Sparse and late-interaction encoders score pairs as their own classes in sentence-transformers do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from figeval import ModelError, TextPair
from tests.cli.conftest import Cli
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

QUERIES = [*LINES[:3], "", "a", LONG_TEXT]
DOCUMENTS = [*LINES[2:], "nine!", "", LONG_TEXT]
PAIRS = [TextPair(query, document) for query in QUERIES for document in DOCUMENTS]
PROMPTS = {"query": "does it follow: ", "document": "the answer: "}
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def splade(workshop: Workshop) -> Path:
    from sentence_transformers import SparseEncoder

    model = SparseEncoder(str(workshop("bert", "ForMaskedLM")), prompts=PROMPTS, device="cpu")
    return saved(model, workshop.folder / "splade")


@pytest.fixture(scope="module")
def colbert(workshop: Workshop) -> Path:
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from torch.nn import Identity

    expansion: Any = {"strategy": "fixed", "attend": False, "length": 16}
    modules = [
        Transformer(str(workshop("bert", "Model")), query_expansion=expansion, document_length=48),
        Dense(16, 8, bias=False, activation_function=Identity(), module_input_name="token_embeddings"),
        MultiVectorMask(skiplist_words=[",", "."]),
        Normalize(module_input_name="token_embeddings"),
    ]
    return saved(MultiVectorEncoder(modules=modules, prompts=PROMPTS, device="cpu"), workshop.folder / "colbert")


def saved(model: Any, folder: Path) -> Path:
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


def declaring(folder: Path, target: Path, **settings: Any) -> Path:
    """A copy of a checkpoint whose declaration of itself has these settings, too."""
    shutil.copytree(folder, target)
    file = target / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    return target


@pytest.mark.parametrize(
    "similarity",
    [None, "cosine", *(pytest.param(name, marks=pytest.mark.slow) for name in ("dot", "euclidean", "manhattan"))],
)
def test_sparse_scores_are_the_library_s(
    similarity: str | None, splade: Path, tmp_path: Path, open_model: Open
) -> None:
    from sentence_transformers import SparseEncoder

    folder = declaring(splade, tmp_path / "copy", similarity_fn_name=similarity)
    library: Any = SparseEncoder(str(folder), device="cpu")
    left, right = (
        encode(texts).to_dense()
        for encode, texts in ((library.encode_query, QUERIES), (library.encode_document, DOCUMENTS))
    )
    backend = open_model(folder)
    for batch_size in ("auto", 2):
        scores = open_model(folder, batch_size=batch_size).score_pairs(PAIRS)
        np.testing.assert_allclose(scores.values, library.similarity(left, right).ravel(), atol=1e-4)
    assert scores.truncated == {index for index, pair in enumerate(PAIRS) if LONG_TEXT in (pair.left, pair.right)}
    assert backend.score_pairs(PAIRS[::-1]).values == pytest.approx(scores.values[::-1], abs=1e-5)
    assert backend.describe()["prompts"]["query"] == PROMPTS["query"]
    assert backend.describe()["similarity"] == (similarity or "dot")


@pytest.mark.parametrize("similarity", [None, "meanmaxsim"])
def test_late_scores_are_the_library_s(similarity: str | None, colbert: Path, tmp_path: Path, open_model: Open) -> None:
    from sentence_transformers import MultiVectorEncoder

    folder = declaring(colbert, tmp_path / "copy", similarity_fn_name=similarity)
    library: Any = MultiVectorEncoder(str(folder), device="cpu")
    expected = library.similarity(library.encode_query(QUERIES), library.encode_document(DOCUMENTS))
    scores = open_model(folder).score_pairs(PAIRS)
    np.testing.assert_allclose(scores.values, expected.ravel(), atol=1e-4)
    queries, documents = (
        {text for text in texts if len(library.tokenizer(PROMPTS[role] + text)["input_ids"]) > limit}
        for role, texts, limit in (("query", QUERIES, 16), ("document", DOCUMENTS, 48))
    )
    cut = {index for index, pair in enumerate(PAIRS) if pair.left in queries or pair.right in documents}
    assert scores.truncated == cut, "queries are cut to the length that they are expanded to"
    longer = open_model(folder, max_length=90)
    assert longer.score_pairs([TextPair(LINES[0], LINES[1])]).truncated == set()
    assert longer.describe()["max_query_length"] == 90


def test_a_model_of_pylate_is_read_with_its_markers(colbert: Path, tmp_path: Path, open_model: Open) -> None:
    from sentence_transformers import MultiVectorEncoder

    folder = declaring(colbert, tmp_path / "copy", model_type="ColBERT", query_prefix="nine ", document_prefix="yes ")
    settings = json.loads((folder / "config_sentence_transformers.json").read_text()) | {"prompts": {}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    modules = json.loads((folder / "modules.json").read_text())[:2]
    modules[1]["type"] = "pylate.models.Dense.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    library: Any = MultiVectorEncoder(str(folder), device="cpu")
    expected = library.similarity(library.encode_query(QUERIES), library.encode_document(DOCUMENTS))
    np.testing.assert_allclose(open_model(folder).score_pairs(PAIRS).values, expected.ravel(), atol=1e-4)


@pytest.mark.parametrize("kind", ["splade", "colbert"])
def test_prompts_are_those_that_are_given(kind: str, request: pytest.FixtureRequest, open_model: Open) -> None:
    folder = request.getfixturevalue(kind)
    options: list[Any] = [{}, {"query_prompt": ""}, {"query_prompt": "", "document_prompt": ""}]
    backends = [open_model(folder, **option) for option in options]
    assert len({backend.fingerprint() for backend in backends}) == 3
    (bare,) = backends[2].score_pairs([TextPair("does it follow: nine", "the answer: yes")]).values
    assert backends[0].score_pairs([TextPair("nine", "yes")]).values == [pytest.approx(bare, abs=1e-5)]
    with pytest.raises(ModelError, match="no prompt of this name"):
        open_model(folder, query_prompt="s2p")


def test_a_masked_model_with_a_pooling(workshop: Workshop, open_model: Open) -> None:
    from sentence_transformers import SparseEncoder

    folder = workshop("bert", "ForMaskedLM")
    library: Any = SparseEncoder(str(folder), device="cpu")
    for pooling in ("max", "sum"):
        library[1].pooling_strategy = pooling
        expected = library.similarity(library.encode(QUERIES).to_dense(), library.encode(DOCUMENTS).to_dense())
        scores = open_model("sparse", folder, pooling=pooling).score_pairs(PAIRS).values
        np.testing.assert_allclose(scores, expected.ravel(), rtol=1e-4)
    with pytest.raises(ModelError, match="declares no pooling"):
        open_model("sparse", folder)
    with pytest.raises(ModelError, match="use --model masked:"):
        open_model("late_interaction", folder)
    with pytest.raises(ModelError, match="use --model encoder:"):
        open_model("sparse", workshop("bert", "Model"), pooling="max")


def test_a_run_ranks_with_them(splade: Path, colbert: Path, tmp_path: Path, cli: Cli) -> None:
    for folder in (splade, colbert):
        target = tmp_path / folder.name
        arguments = ["run", "--tasks", "mini_proverbs,mini_narrative,mini_pairs", "--limit", "4", "--model", folder]
        assert cli(*arguments, "--output_path", target).code == 0
        record = json.loads((target / "run.json").read_text())
        assert [task["route"] for task in record["tasks"]] == ["by_pair_score", "by_retrieval_score", "by_threshold"]
        assert record["model"]["description"]["prompts"]["document"] == PROMPTS["document"]


def test_an_older_library_is_one_line(colbert: Path, open_model: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    import sentence_transformers

    monkeypatch.delattr(sentence_transformers, "MultiVectorEncoder")
    with pytest.raises(
        ModelError, match=r"does not have; install a newer one: pip install 'sentence-transformers>=6.0'"
    ):
        open_model(colbert).score_pairs(PAIRS[:1])


# ---- code of others --------------------------------------------------------------------------------------------------

TRAP = "open('{marker}', 'w').close()\nclass Module: pass\nclass Trap(Module): pass\n"


@pytest.mark.parametrize(
    "origin", ["module", "installed", "router", "route", "nested", "top", "architecture", "outside"]
)
def test_code_that_comes_with_a_checkpoint_is_not_run(
    origin: str, splade: Path, colbert: Path, sentence_folder: Path, tmp_path: Path, open_model: Open
) -> None:
    marker = tmp_path / "ran"
    for folder in (splade, colbert, sentence_folder):
        copy = shutil.copytree(folder, tmp_path / folder.name)
        (copy / "trap.py").write_text(TRAP.format(marker=marker))
        modules = json.loads((copy / "modules.json").read_text())
        if origin in ("module", "installed"):
            modules[1]["type"] = "trap.Trap" if origin == "module" else "subprocess.Popen"
        elif origin == "outside":
            modules[1]["path"] = "../elsewhere"
        elif origin == "architecture":
            (copy / "config.json").write_text(
                json.dumps({"model_type": "trap", "auto_map": {"AutoModel": "trap.Trap", "AutoConfig": "trap.Trap"}})
            )
        else:
            modules[0] |= {"type": "sentence_transformers.base.modules.router.Router", "path": "0_Router"}
            router = copy / ("" if origin == "top" else "0_Router")
            types: Any = {"query_0": {"type": "trap.Trap"} if origin == "route" else "trap.Trap"}
            if origin == "top":
                modules[0]["path"] = ""
            elif origin == "nested":
                (router / "query_0").mkdir(parents=True)
                (router / "query_0" / "config.json").write_text(json.dumps({"types": types, "structure": {}}))
                types = {"query_0": "sentence_transformers.models.Router"}
            router.mkdir(exist_ok=True)
            (router / "router_config.json").write_text(json.dumps({"types": types, "structure": {}}))
        (copy / "modules.json").write_text(json.dumps(modules))
        with pytest.raises(ModelError) as caught:
            open_model(copy)
        assert "needs code that comes with it" in str(caught.value)
        assert "\n" not in str(caught.value)
        shutil.rmtree(copy)
    assert not marker.exists()


@pytest.mark.parametrize("content", ["{}", "[3]", "null", "not json"])
def test_damaged_modules_are_one_line(content: str, splade: Path, tmp_path: Path, open_model: Open) -> None:
    copy = shutil.copytree(splade, tmp_path / "copy")
    (copy / "modules.json").write_text(content)
    with pytest.raises(ModelError) as caught:
        open_model(copy).score_pairs(PAIRS[:1])
    assert "\n" not in str(caught.value)
