"""Which backend a checkpoint is for, by its config; and the hub, which tests never reach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from figeval import Harness, ModelError, UnknownName
from tests.loopback import answering
from tests.plugins.tiny import Workshop, change_config

TABLE = [
    ({"architectures": ["RobertaForMaskedLM"]}, {}, "masked"),
    ({"architectures": ["BertForPreTraining"]}, {}, "masked"),
    ({"architectures": ["ElectraForPreTraining"]}, {}, "encoder"),
    ({"architectures": ["XLMWithLMHeadModel"]}, {}, "masked"),
    ({"architectures": ["DebertaV2ForSequenceClassification"]}, {}, "pairs"),
    ({"architectures": ["GPT2LMHeadModel"]}, {}, "causal"),
    ({"architectures": ["LlamaForCausalLM"]}, {}, "causal"),
    ({"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}, {}, "seq2seq"),
    ({"architectures": ["T5WithLMHeadModel"], "is_encoder_decoder": True}, {}, "seq2seq"),
    ({"architectures": ["MPNetModel"]}, {}, "encoder"),
    ({"architectures": ["T5EncoderModel"]}, {}, "encoder"),
    ({"model_type": "deberta-v2"}, {}, "encoder"),
    ({"model_type": "gpt2"}, {}, "causal"),
    ({"architectures": ["RobertaForTokenClassification"]}, {}, "tagger"),
    ({"architectures": ["BertForQuestionAnswering"]}, {}, "spans"),
    ({"architectures": ["BertModel"]}, {"figeval.json": {"kind": "joint"}}, "joint"),
    ({"architectures": ["BertModel"]}, {"figeval.json": {"kind": "encoder", "pooling": "cls"}}, "encoder"),
    ({"architectures": ["BertModel"]}, {"figeval.json": {"kind": "pair_encoder"}}, "pair_encoder"),
    ({"architectures": ["BertForQuestionAnswering"]}, {"figeval.json": {"text": "first"}}, "spans"),
    ({"architectures": ["BertModel"]}, {"figeval.json": {"kind": "marker"}}, "marker"),
    ({"architectures": ["T5Model"], "is_encoder_decoder": True}, {"figeval.json": {"kind": "marker"}}, "marker"),
    ({"architectures": ["BertModel"]}, {"modules.json": []}, "encoder"),
    ({"architectures": ["MPNetForMaskedLM"]}, {"modules.json": []}, "encoder"),
    (None, {"modules.json": []}, "encoder"),
    ({"architectures": ["BertModel"]}, {"config_sentence_transformers.json": {}}, "encoder"),
    (
        {"architectures": ["BertForSequenceClassification"]},
        {"modules.json": [], "config_sentence_transformers.json": {"model_type": "CrossEncoder"}},
        "pairs",
    ),
    (
        {"architectures": ["BertForMaskedLM"]},
        {"modules.json": [], "config_sentence_transformers.json": {"model_type": "SparseEncoder"}},
        "sparse",
    ),
    (None, {"modules.json": [], "config_sentence_transformers.json": {"model_type": "SparseEncoder"}}, "sparse"),
    *(
        (
            {"architectures": ["BertModel"]},
            {"modules.json": [], "config_sentence_transformers.json": {"model_type": name}},
            "late_interaction",
        )
        for name in ("MultiVectorEncoder", "ColBERT")
    ),
    ({"architectures": ["HF_ColBERT"]}, {}, "late_interaction"),
    (
        {"architectures": ["BertModel"]},
        {"modules.json": [], "config_sentence_transformers.json": {"model_type": "Unheard"}},
        None,
    ),
]


def backend_of(model: str | Path, **options: str) -> str:
    """The backend that opens a folder or hub id."""
    backend, _ = Harness().backends.locate(str(model), options)
    return backend


@pytest.mark.parametrize(("config", "further", "backend"), TABLE)
def test_the_table(
    config: dict[str, object] | None, further: dict[str, object], backend: str | None, tmp_path: Path
) -> None:
    files = {**({} if config is None else {"config.json": config}), **further}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "model.safetensors").touch()
    if backend is None:
        with pytest.raises(UnknownName):
            backend_of(tmp_path)
    else:
        assert backend_of(tmp_path) == backend


def test_real_folders(workshop: Workshop, sentence_folder: Path) -> None:
    assert backend_of(workshop("roberta")) == "masked"
    assert backend_of(workshop("t5", "ForConditionalGeneration")) == "seq2seq"
    assert backend_of(sentence_folder) == "encoder"


@pytest.mark.parametrize(
    ("architecture", "backend"),
    [("BertForMaskedLM", "encoder"), ("GPT2LMHeadModel", "encoder"), ("BertForQuestionAnswering", "spans")],
)
def test_a_model_of_words_with_a_pooling_is_an_encoder(architecture: str, backend: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    (tmp_path / "model.safetensors").touch()
    assert backend_of(tmp_path) != "encoder"
    assert backend_of(tmp_path, pooling="mean") == backend


def test_a_misspelt_backend_is_not_taken_for_a_checkpoint() -> None:
    with pytest.raises(UnknownName, match="did you mean 'encoder'"):
        backend_of("encodr:some/model")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("roberta-large", "the model hub is unreachable .HF_HUB_OFFLINE is set.*figeval ls models"),
        ("org/model", "copy the model into a folder"),
        ("./nowhere", "there is no folder './nowhere'"),
        ("a/b/c", "there is no folder"),
        ("", "no checkpoint is given"),
    ],
)
def test_what_is_not_there_is_one_line(model: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        backend_of(model)
    assert "\n" not in str(caught.value)


def test_folders_that_are_no_checkpoints(tmp_path: Path, workshop: Workshop) -> None:
    with pytest.raises(ModelError, match=r"neither config\.json nor modules\.json"):
        backend_of(tmp_path)
    hollow = change_config(workshop("bert"), tmp_path / "hollow")
    (hollow / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="but no weights"):
        backend_of(hollow)


# ---- a hub on loopback ---------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from figeval import FigevalError, Harness
try:
    print(Harness().backends.locate(sys.argv[1], {})[0])
except FigevalError as error:
    print(f"{type(error).__name__}: {error}")
"""


class Hub(BaseHTTPRequestHandler):
    """Knows `org/known`; `org/gated` is not for everybody; all else is not there, with the hub's own headers."""

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        status, error, content = self.find()
        self.send_response(status)
        if error:
            self.send_header("X-Error-Code", error)
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def find(self) -> tuple[int, str, bytes]:
        if self.path == "/":
            return 200, "", b""
        if "org/known" in self.path:
            if self.path.endswith("/config.json"):
                return 200, "", b'{"architectures": ["RobertaForMaskedLM"]}'
            return 404, "EntryNotFound", b""
        return (403, "GatedRepo", b"") if "org/gated" in self.path else (404, "RepoNotFound", b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def resolve(model: str, endpoint: str, cache: Path) -> str:
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(cache)}
    environment |= {"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, model], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_the_hub_says_yes_and_no(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    with answering(server) as endpoint:
        assert resolve("org/known", endpoint, tmp_path) == "masked"
        assert "accept its terms" in resolve("org/gated", endpoint, tmp_path)
        assert "the model hub has no 'org/none'" in resolve("org/none", endpoint, tmp_path)
        assert "did you mean 'tfidf'" in resolve("tfdf", endpoint, tmp_path), "as likely a misspelt backend"
    assert resolve("org/known", endpoint, tmp_path) == "masked", "what is cached needs no hub"
    assert "the model hub is unreachable" in resolve("org/none", endpoint, tmp_path)
