"""Local OpenAI-compatible server with a tiny model: chat, and completions with echoed log-probabilities.

vLLM and llama.cpp return such log-probabilities, but the server of transformers does not.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.loopback import answering


@dataclass
class Served:
    """The address, and what was asked."""

    address: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


class Answers:
    """What the endpoints return, computed by transformers one text at a time."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()

    def echoed(self, ids: list[int]) -> dict[str, Any]:
        """Log-probabilities of every token given and of one more."""
        import torch

        with torch.inference_mode():
            table = self.model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
        ids = [*ids, int(table[-1].argmax())]
        log_probabilities = [None, *(float(table[index - 1, ids[index]]) for index in range(1, len(ids)))]
        best = [None, *({"x": float(table[index - 1].max())} for index in range(1, len(ids)))]
        return {"token_logprobs": log_probabilities, "top_logprobs": best}

    def written(self, text: str, max_tokens: int) -> str:
        import torch

        ids = torch.tensor([self.tokenizer(text)["input_ids"]])
        with torch.inference_mode():
            output = self.model.generate(ids, max_new_tokens=max_tokens, do_sample=False, pad_token_id=0)
        return str(self.tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True))

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        if "messages" in request:
            text = f"The answer is {'ABC'[len(request['messages'][-1]['content']) % 3]}."
            return {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
        prompts = request["prompt"] if isinstance(request["prompt"], list) else [request["prompt"]]
        if request.get("echo"):
            choices = [{"index": n, "logprobs": self.echoed(ids)} for n, ids in enumerate(prompts)]
        else:
            texts = [prompt if isinstance(prompt, str) else self.tokenizer.decode(prompt) for prompt in prompts]
            choices = [{"index": n, "text": self.written(t, request["max_tokens"])} for n, t in enumerate(texts)]
        return {"choices": choices}


@contextmanager
def serve(folder: Path) -> Iterator[Served]:
    answers = Answers(folder)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                served.requests.append(request)
                served.headers.append(dict(self.headers))
                body = json.dumps(answers(request)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with answering(server) as address:
        served = Served(f"{address}/v1")
        yield served
