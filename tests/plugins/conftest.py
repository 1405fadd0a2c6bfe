"""Fixtures for tests of models with weights: tiny models, no hub, one thread."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.servers import Desk, desk_open, openai_answer
from tests.plugins.tiny import Workshop


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: tiny models do not benefit from more, and waiting threads cost seconds on a busy machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def gpt2(workshop: Workshop) -> Path:
    """Return the folder of a tiny language model, which tests must not change."""
    return workshop("gpt2", "LMHeadModel")


@pytest.fixture(scope="session")
def sentence_folder(workshop: Workshop) -> Path:
    """Return a sentence-transformers folder: mean pooling, a dense layer, normalisation, at most 32 tokens."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    body = Transformer(str(workshop("mpnet", "Model")), max_seq_length=32)
    parts = [body, Pooling(16, pooling_mode="mean"), Dense(16, 8), Normalize()]
    folder = workshop.folder / "sentence"
    SentenceTransformer(modules=parts, device="cpu").save_pretrained(str(folder), create_model_card=False)
    return folder


@pytest.fixture
def desk() -> Iterator[Desk]:
    with desk_open() as desk:
        yield desk


@pytest.fixture
def openai(open_model: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that opens a model: `openai("m", base_url=desk.url)`."""
    return partial(open_model, "openai")


@pytest.fixture
def anthropic(open_model: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that opens a model: `anthropic("m", base_url=desk.url)`."""
    return partial(open_model, "anthropic")


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let random pauses between attempts be as short as they can be."""
    monkeypatch.setattr(random.Random, "uniform", lambda _dice, low, _high: low)


@pytest.fixture
def bodies_sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the bodies of requests to any address, each of which is answered with "B" and without a network."""
    import httpx

    bodies = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(404, stream=httpx.ByteStream(b""))
        bodies.append(json.loads(request.content))
        return httpx.Response(200, stream=httpx.ByteStream(openai_answer("B")))

    monkeypatch.setattr(httpx, "AsyncClient", partial(httpx.AsyncClient, transport=httpx.MockTransport(answer)))
    return bodies


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
