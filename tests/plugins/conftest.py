"""Fixtures for tests of models with weights: tiny models, no hub, one thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.servers import Desk, desk_open
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
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
