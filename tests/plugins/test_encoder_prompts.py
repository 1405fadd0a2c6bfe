"""What encoders read before queries and documents, compared with `encode_query` and `encode_document`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from figeval import ModelError, Text, TextPair
from tests.cli.conftest import Cli
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

TEXTS = [*LINES, "", "a", LONG_TEXT]
ROLES: tuple[Any, ...] = ("query", "document", "")
E5 = {"query": "does it follow: ", "document": "the answer: "}
Prompted = Callable[..., Path]
Open = Callable[..., Any]


@pytest.fixture
def encoder(open_model: Open) -> Open:
    return lambda folder, **options: open_model(f"encoder:{folder}", **options)


@pytest.fixture
def with_prompts(sentence_folder: Path, tmp_path: Path) -> Prompted:
    """Copy a checkpoint, with these prompts in its configuration."""

    def copy(prompts: Any, default: str | None = None, name: str = "copy") -> Path:
        folder = shutil.copytree(sentence_folder, tmp_path / name)
        file = folder / "config_sentence_transformers.json"
        settings = json.loads(file.read_text())
        file.write_text(json.dumps(settings | {"prompts": prompts, "default_prompt_name": default}))
        return folder

    return copy


def vectors(backend: Any, role: Any) -> Any:
    return backend.embed([Text(text, role) for text in TEXTS]).values


def prompts_of(backend: Any) -> tuple[str, ...]:
    """What is read before queries, documents and other texts."""
    prompts = backend.describe().get("prompts", {})
    return tuple(prompts.get(name, "") for name in ("query", "document", "text"))


def plain(folder: Path, prompt: str) -> Any:
    """Vectors of the library itself with a prompt that is spelt out."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu").encode([prompt + text for text in TEXTS], prompt="")


@pytest.mark.parametrize("batch_size", [1, "auto"])
@pytest.mark.parametrize("default", [None, "query", "document"])
def test_each_side_gets_its_own_prompt(
    default: str | None, batch_size: Any, with_prompts: Prompted, encoder: Open
) -> None:
    """The default prompt, too, is never put before the other side's texts."""
    from sentence_transformers import SentenceTransformer

    folder = with_prompts(E5, default)
    library, backend = SentenceTransformer(str(folder), device="cpu"), encoder(str(folder), batch_size=batch_size)
    mixed = backend.embed([Text(text, role) for text in TEXTS for role in ("query", "document")]).values
    np.testing.assert_allclose(mixed[::2], library.encode_query(TEXTS), atol=1e-5)
    np.testing.assert_allclose(mixed[1::2], library.encode_document(TEXTS), atol=1e-5)
    np.testing.assert_allclose(vectors(backend, "query"), plain(folder, E5["query"]), atol=1e-5)
    if default:
        np.testing.assert_allclose(vectors(backend, ""), library.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize(
    ("declared", "default", "read"),
    [
        ({"query": "q: ", "passage": "p: "}, None, ("q: ", "p: ", "q: ")),
        ({"query": "q: ", "document": "", "corpus": "c: "}, None, ("q: ", "c: ", "q: ")),
        ({"query": "q: "}, None, ("q: ", "", "")),  # such a model reads its documents bare, and likewise pairs
        ({"query": "q: ", "document": "d: ", "STS": "s: "}, None, ("q: ", "d: ", "s: ")),
        ({"query": "q: ", "document": "d: "}, "document", ("q: ", "d: ", "d: ")),
        ({"query": "q: ", "other": "o: "}, "other", ("q: ", "", "o: ")),
        ({"query": None, "document": ""}, None, ("", "", "")),
        ({}, None, ("", "", "")),
    ],
)
def test_where_declared_prompts_go(
    declared: Any, default: str | None, read: tuple[str, ...], with_prompts: Prompted, encoder: Open
) -> None:
    assert prompts_of(encoder(with_prompts(declared, default))) == read


def test_preview_shows_what_is_read_with_its_prompt(with_prompts: Prompted, cli: Cli) -> None:
    options = f"encoder:{with_prompts(E5)}", "--model_args", "document_prompt=say: "
    lines = cli("preview", "mini_retrieval", "-n", "1", "--model", *options).out.splitlines()
    shown = [line.strip().split("│", 1) for line in lines if line.strip().startswith(("query", "document"))]
    assert [name.strip() for name, _ in shown] == ["query", *["document"] * 5]
    assert shown[0][1].startswith(E5["query"])
    assert shown[1][1] == "say: A stitch in time saves nine"


def test_a_folder_with_a_model_is_shown_as_what_opens_it(sentence_folder: Path, tmp_path: Path, cli: Cli) -> None:
    shown = json.loads(cli("show", sentence_folder, "--json").out)
    assert shown["summary"].startswith("opened as encoder: ")
    assert shown["options"] == json.loads(cli("show", "encoder", "--json").out)["options"]
    assert "run.json: cannot be read" in cli("show", tmp_path).complaint


def test_prompts_are_given_by_name_or_as_text_and_switched_off(with_prompts: Prompted, encoder: Open) -> None:
    folder = str(with_prompts({"s2p_query": "find: ", "s2s_query": "same: "}))
    read = prompts_of(encoder(folder, query_prompt="s2p_query", document_prompt="say: "))
    assert read == ("find: ", "say: ", "find: ")
    e5 = with_prompts(E5, "query", name="e5")
    off = encoder(str(e5), query_prompt="", document_prompt="")
    for role in ROLES:
        np.testing.assert_allclose(vectors(off, role), plain(e5, ""), atol=1e-5)
    with pytest.raises(ModelError, match=r"declares no prompt of this name .* did you mean 's2p_query'") as caught:
        encoder(folder, query_prompt="s2p_qeury")
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="is not a text"):
        encoder(folder, document_prompt=3)


@pytest.mark.parametrize(
    ("declared", "query"),
    [
        ({"query": "Instruct: Find it\nQuery:"}, "Instruct: tell, me\nQuery:"),
        ({"web": "Instruct: Find it\nQuery: ", "sts": "Instruct: Compare\nQuery: "}, "Instruct: tell, me\nQuery: "),
        ({"query": "task: search result | query: ", "document": "text: "}, "task: tell, me | query: "),
        ({"query": "<instruct>Find it\n<query>"}, "<instruct>tell, me\n<query>"),
    ],
)
def test_an_instruction_takes_the_place_of_the_declared_one(
    declared: dict[str, str], query: str, with_prompts: Prompted, encoder: Open
) -> None:
    folder = str(with_prompts(declared))
    document = declared.get("document", "")
    assert prompts_of(encoder(folder, instruction="tell, me")) == (query, document, query)
    assert prompts_of(encoder(folder, instruction="tell, me", text_prompt="")) == (query, document, "")
    assert encoder(folder, instruction="a").fingerprint() != encoder(folder, instruction="b").fingerprint()


def test_an_instruction_without_a_place_is_one_line(with_prompts: Prompted, encoder: Open) -> None:
    folder = str(with_prompts(E5))
    cases: list[tuple[Any, str]] = [
        ({"instruction": "a"}, r"declares no prompt with a place for an instruction; .*\"query_prompt\": \"Instruct"),
        ({"instruction": " "}, "is not a text that says what to do"),
        ({"instruction": ["a"]}, "is not a text that says what to do"),
        ({"instruction": "a", "query_prompt": "b: "}, "leave instruction= out"),
    ]
    for options, reason in cases:
        with pytest.raises(ModelError, match=reason) as caught:
            encoder(folder, **options)
        assert "\n" not in str(caught.value)


def test_a_raw_encoder_has_the_prompts_that_are_given_or_in_its_figeval_json(
    workshop: Workshop, tmp_path: Path, encoder: Open
) -> None:
    raw = workshop("bert", "Model")
    with_option = encoder(str(raw), pooling="mean", query_prompt="does it follow: ")
    folder = shutil.copytree(raw, tmp_path / "raw")
    (folder / "figeval.json").write_text(json.dumps({"pooling": "mean", "query_prompt": "does it follow: "}))
    bare = encoder(str(raw), pooling="mean").embed([Text("does it follow: " + text) for text in TEXTS]).values
    for backend in (with_option, encoder(str(folder))):
        np.testing.assert_allclose(vectors(backend, "query"), bare, atol=1e-5)


def test_prompts_are_in_record_and_fingerprint_and_only_if_there_are_any(with_prompts: Prompted, encoder: Open) -> None:
    e5, none = str(with_prompts(E5)), with_prompts({"query": "", "document": ""}, name="none")
    backends = [encoder(e5), encoder(e5, query_prompt=""), encoder(e5, query_prompt="", document_prompt="")]
    assert len({backend.fingerprint() for backend in backends}) == 3
    assert backends[0].describe()["prompts"] == {**E5, "text": E5["query"]}
    assert backends[2].describe()["prompts"] == {"query": "", "document": "", "text": ""}
    without = encoder(none)
    assert ["{" in backend.fingerprint() for backend in (*backends, without)] == [True, True, True, False]
    assert not {"prompts", "warnings"} & set(without.describe())


def test_prompts_that_cannot_be_placed_are_a_warning_with_the_options(with_prompts: Prompted, encoder: Open) -> None:
    folder = str(with_prompts({"query": "", "document": "", "s2p_query": "find: "}, "s2p_query"))
    (warning,) = encoder(folder).describe()["warnings"]
    assert "'s2p_query'" in warning
    assert "query_prompt=NAME,document_prompt=NAME" in warning
    (rest,) = encoder(folder, query_prompt="find: ").describe()["warnings"]
    assert "document_prompt=" in rest
    assert "query_prompt" not in rest
    assert "warnings" not in encoder(folder, query_prompt="s2p_query", document_prompt="").describe()
    assert "warnings" not in encoder(str(with_prompts(E5 | {"Clustering": "c: "}, name="e5"))).describe()


@pytest.mark.parametrize(("prompts", "default"), [(["query: "], None), ({"query": 3}, None), (E5, "nowhere")])
def test_a_damaged_declaration_is_one_line(
    prompts: Any, default: str | None, with_prompts: Prompted, encoder: Open
) -> None:
    with pytest.raises(ModelError, match=r"config_sentence_transformers\.json") as caught:
        encoder(str(with_prompts(prompts, default)))
    assert "\n" not in str(caught.value)


def test_a_maximum_length_holds_beside_a_default_prompt(with_prompts: Prompted, encoder: Open) -> None:
    backend = encoder(str(with_prompts(E5, "query")), max_length=24)
    assert backend.embed([Text("a", "query"), Text(LINES[0], "document")]).truncated == {1}
    assert backend.describe()["max_length"] == 24


def test_a_prompt_without_room_for_a_text_is_one_line(with_prompts: Prompted, encoder: Open) -> None:
    folder = str(with_prompts(E5 | {"document": "the answer " * 40}))
    with pytest.raises(ModelError, match=r"before documents has [0-9]+ tokens of the 32 that it reads") as caught:
        encoder(folder).embed([Text("a")])
    assert "\n" not in str(caught.value)


def test_a_cross_encoder_reads_its_default_prompt(workshop: Workshop, tmp_path: Path, open_model: Open) -> None:
    from sentence_transformers import CrossEncoder
    from torch.nn import Identity

    options: Any = {"prompts": E5, "default_prompt_name": "query", "device": "cpu"}
    library = CrossEncoder(str(workshop("bert", "ForSequenceClassification", num_labels=1)), **options)
    library.save_pretrained(str(tmp_path / "cross"))
    pairs = [(text, LINES[0]) for text in TEXTS[:4]]
    requests = [TextPair(*pair) for pair in pairs]
    backend = open_model(tmp_path / "cross")
    expected = library.predict(pairs, activation_fn=Identity())
    np.testing.assert_allclose(backend.score_pairs(requests).values, expected, atol=1e-4)
    assert backend.describe()["prompts"]["query"] == E5["query"]
    off = open_model(tmp_path / "cross", query_prompt="")
    bare = library.predict(pairs, activation_fn=Identity(), prompt="")
    np.testing.assert_allclose(off.score_pairs(requests).values, bare, atol=1e-4)
    assert off.fingerprint() != backend.fingerprint()


def save_modules(modules: list[Any], folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(modules=modules, prompts=E5, device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)
    return model


@pytest.mark.parametrize("mode", ["mean", "cls", "lasttoken"])
def test_a_prompt_that_is_no_part_of_the_vector(mode: str, workshop: Workshop, tmp_path: Path, encoder: Open) -> None:
    """Instructor's vectors have the states of the text's own tokens only."""
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    body = Transformer(str(workshop("bert", "Model")), max_seq_length=48)
    library = save_modules([body, Pooling(16, pooling_mode=mode, include_prompt=False)], tmp_path / "skips")
    backend = encoder(str(tmp_path / "skips"))
    mixed = backend.embed([Text(text, role) for text in TEXTS for role in ("query", "document")])
    np.testing.assert_allclose(mixed.values[::2], library.encode_query(TEXTS), atol=1e-5)
    np.testing.assert_allclose(mixed.values[1::2], library.encode_document(TEXTS), atol=1e-5)
    assert {2 * TEXTS.index(LONG_TEXT), 2 * TEXTS.index(LONG_TEXT) + 1} <= mixed.truncated


def test_a_network_for_each_side(workshop: Workshop, tmp_path: Path, encoder: Open) -> None:
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(workshop("bert")).backend_tokenizer
    sides = [[StaticEmbedding(tokenizer, embedding_dim=8)] for _ in range(2)]
    library = save_modules([Router.for_query_document(*sides)], tmp_path / "sides")
    backend = encoder(str(tmp_path / "sides"))
    np.testing.assert_allclose(vectors(backend, "query"), library.encode_query(TEXTS), atol=1e-6)
    np.testing.assert_allclose(vectors(backend, "document"), library.encode_document(TEXTS), atol=1e-6)
    with pytest.raises(ModelError, match="Router, which takes no maximum length; leave max_length= out"):
        encoder(str(tmp_path / "sides"), max_length=16).embed([Text("a")])


def test_a_run_reads_the_text_of_a_prompt_with_its_blank(with_prompts: Prompted, tmp_path: Path, cli: Cli) -> None:
    folder = with_prompts({"s2p": "find: "})
    options = "query_prompt=ask: ,document_prompt=s2p,batch_size=4"
    arguments = ["run", "--tasks", "mini_proverbs", "--limit", "4", "--model", folder, "--model_args", options]
    assert cli(*arguments, "--output_path", tmp_path / "run").code == 0
    model = json.loads((tmp_path / "run" / "run.json").read_text())["model"]
    assert model["description"]["prompts"] == {"query": "ask: ", "document": "find: ", "text": "ask: "}
    assert '"ask: "' in model["fingerprint"]
