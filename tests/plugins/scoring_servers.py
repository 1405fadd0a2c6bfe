"""Imitations of servers that score texts, on loopback, with a tiny model of transformers behind them.

Their requests and responses are those of the servers' documentation: `vllm serve` (completions with `prompt_logprobs`),
SGLang (`/generate` with `logprob_start_len`) and llama-cpp-python (completions with `echo`). Anything else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from tests.loopback import answering


@dataclass
class Imitated:
    """A model behind a server: `requests` are the bodies of requests, `faults` the statuses of the next answers."""

    folder: Path
    kind: str
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.network = AutoModelForCausalLM.from_pretrained(self.folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(self.folder)

    def logprobs(self, ids: list[int]) -> list[float | None]:
        with self.lock, torch.inference_mode():
            table = self.network(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)
        return [None, *(float(table[index - 1, ids[index]]) for index in range(1, len(ids)))]

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        answers = {"vllm": self.vllm, "sglang": self.sglang, "llama_cpp": self.llama_cpp}
        paths = {"vllm": "/v1/completions", "sglang": "/generate", "llama_cpp": "/v1/completions"}
        if path != paths[self.kind]:
            return 404, {"error": {"message": f"no {path} here"}}
        self.requests.append(body)
        if self.faults:
            return self.faults.pop(0), {"error": {"message": "not now"}}
        return 200, answers[self.kind](body)

    def vllm(self, body: dict[str, Any]) -> dict[str, Any]:
        assert (body["prompt_logprobs"], body["max_tokens"], body["temperature"]) == (0, 1, 0.0)
        ids = body["prompt"]
        rows = [
            None if value is None else {str(token): {"logprob": value, "rank": 1, "decoded_token": "?"}}
            for token, value in zip(ids, self.logprobs(ids), strict=True)
        ]
        usage = {"prompt_tokens": len(ids), "completion_tokens": 1}
        return {"model": body["model"], "choices": [{"text": "?", "prompt_logprobs": rows}], "usage": usage}

    def sglang(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["return_logprob"] and body["sampling_params"] == {"temperature": 0, "max_new_tokens": 1}
        ids, start = body["input_ids"], body["logprob_start_len"]
        rows = [[value, token, None] for token, value in zip(ids, self.logprobs(ids), strict=True)][start:]
        rows[0][0] = None  # nothing is known about the first token
        return {
            "text": "?",
            "meta_info": {"prompt_tokens": len(ids), "completion_tokens": 1, "input_token_logprobs": rows},
        }

    def llama_cpp(self, body: dict[str, Any]) -> dict[str, Any]:
        """As in version 0.3.36, which pairs tokens with what the model says after as many of them, BOS left out."""
        assert body["echo"] and body["logprobs"] == 1 and isinstance(body["prompt"], str)
        ids, bos = self.tokenizer(body["prompt"])["input_ids"], self.tokenizer.bos_token_id
        after = int(ids[0] == bos)
        with self.lock, torch.inference_mode():
            table = self.network(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)
        listed = [*ids[after:], int(table[-1].argmax())]
        rows = zip(listed, table, strict=False)  # without BOS, there is a token more than there are rows
        pairs = [(self.tokenizer.decode([token]), float(row[token])) for token, row in rows if token != bos]
        tokens, values = [token for token, _ in pairs], [None, *(value for _, value in pairs[1:])]
        usage = {"prompt_tokens": len(ids), "completion_tokens": 1}
        logprobs = {"tokens": tokens, "token_logprobs": values}
        return {"model": body["model"], "choices": [{"text": "?", "logprobs": logprobs}], "usage": usage}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Imitated

    def do_GET(self) -> None:
        listed = {"id": "tiny", "max_model_len": 96} if self.model.kind != "llama_cpp" else {"id": "tiny"}
        self.send(200, {"data": [listed]} if self.path == "/v1/models" else {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send(*self.model.answer(self.path, body))

    def send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(folder: Path, kind: str) -> Iterator[Imitated]:
    """A server of a kind with the model of a folder."""
    model = Imitated(folder, kind)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"model": model}))
    with answering(server) as address:
        model.url = f"{address}/v1"
        yield model
