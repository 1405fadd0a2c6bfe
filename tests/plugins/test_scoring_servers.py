"""Log-likelihoods from servers, against `causal` with the same weights; the servers are imitated by their documents."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers.processors import ByteLevel, TemplateProcessing
from transformers import AutoTokenizer

import figeval
from figeval import AnswerFormat, CapabilityError, Continuation, Message, ModelError, Prompt
from tests.plugins.scoring_servers import Imitated, serving
from tests.plugins.servers import Desk, free_port, talkative
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

BACKENDS = {"vllm": "vllm_server", "sglang": "sglang", "llama_cpp": "llama_cpp"}
BY_IDS = ("vllm", "sglang")
BOS = "<|endoftext|>"
LETTER = {"type": "string", "enum": ["A", "B"]}
ANSWER_SCHEMA = {
    "type": "object",
    "properties": {"answer": LETTER},
    "required": ["answer"],
    "additionalProperties": False,
}
REQUESTS = [
    *(Continuation(line, f" {other}") for line in LINES for other in ("Yes", "Yes, it does.", "No, it does not.")),
    Continuation("Does it follow? ", "Yes"),
]


@pytest.fixture
def folder(gpt2: Path, tmp_path: Path) -> Path:
    """Return a copy, because some tests change the tokenizer, and other tests use the checkpoint as it is."""
    return Path(shutil.copytree(gpt2, tmp_path / "tiny"))


@pytest.fixture
def open_served(open_model: Any) -> Callable[..., Any]:
    """Return a function that opens the model behind a server."""

    def open_client(server: Imitated, **options: Any) -> Any:
        arguments = {"base_url": server.url, "tokenizer": str(server.folder), "max_retries": 1, **options}
        return open_model(BACKENDS[server.kind], "tiny", **arguments)

    return open_client


def with_bos(folder: Path, *, added: bool) -> Path:
    """Give a tokenizer a token that begins texts, which it may add by itself."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.bos_token = BOS
    if added:
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, tokenizer.bos_token_id)]
        )
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("added", [True, False])
def test_llama_cpp_is_right_about_texts_with_bos(folder: Path, added: bool, open_model: Any, open_served: Any) -> None:
    """With a chat template that repeats the token, too; a token is never there twice at the beginning."""
    with_bos(folder, added=added)
    begin = "" if added else BOS
    requests = [replace(request, context=f"{begin}{request.context}") for request in REQUESTS]
    requests.append(Continuation(f"{BOS}Does it{BOS} follow?", " Yes"))
    with serving(folder, "llama_cpp") as server:
        scores = open_served(server, max_length=96).loglikelihood(requests).values
        np.testing.assert_allclose(scores, open_model("causal", folder).loglikelihood(requests).values, atol=1e-4)


def test_llama_cpp_is_not_asked_what_it_is_wrong_about(folder: Path, open_served: Any) -> None:
    """Without the token, its log-probabilities are shifted by one place."""
    with serving(with_bos(folder, added=False), "llama_cpp") as server:
        for request in (REQUESTS[0], Continuation("", " Yes"), Continuation(BOS + LONG_TEXT, " Yes")):
            with pytest.raises(ModelError, match="only of what follows the token that begins a text"):
                open_served(server, max_length=32).loglikelihood([request])
    assert not server.requests
    with serving(with_bos(folder, added=True), "llama_cpp") as server:
        response = {
            "choices": [{"logprobs": {"tokens": ["a", "b"], "token_logprobs": [None, -1.0]}}],
            "usage": {"prompt_tokens": 2, "completion_tokens": 0},
        }
        server.answer = lambda _path, _body: (200, response)  # type: ignore[method-assign]
        with pytest.raises(ModelError, match="only of what follows"):
            open_served(server, max_length=96).loglikelihood(REQUESTS[:1])


@pytest.mark.parametrize("kind", BY_IDS)
def test_log_likelihoods_are_those_of_causal(folder: Path, kind: str, open_model: Any, open_served: Any) -> None:
    expected = open_model("causal", folder).loglikelihood([*REQUESTS, Continuation("", "Empty vessels")])
    with serving(folder, kind) as server:
        scores = open_served(server).loglikelihood([*REQUESTS, Continuation("", "Empty vessels")])
    np.testing.assert_allclose(scores.values, expected.values, atol=1e-4)
    assert scores.truncated == set()


def test_sglang_is_asked_from_the_last_token_of_the_context_on(folder: Path, open_served: Any) -> None:
    """Everything before it comes from the server's cache, and texts with a common beginning are neighbours."""
    with serving(folder, "sglang") as server:
        open_served(server, max_concurrent=1).loglikelihood(REQUESTS[::-1])
    assert [body["input_ids"] for body in server.requests] == sorted(body["input_ids"] for body in server.requests)
    tokenizer = server.tokenizer
    for body in server.requests:
        after = tokenizer.decode(body["input_ids"][body["logprob_start_len"] + 1 :])
        assert after.startswith((" Yes", " No"))


@pytest.mark.parametrize("kind", BY_IDS)
def test_what_is_answered_is_kept(folder: Path, kind: str, open_served: Any) -> None:
    with serving(folder, kind) as server:
        first = open_served(server).loglikelihood(REQUESTS).values
        sent = len(server.requests)
        assert open_served(server).loglikelihood(REQUESTS).values == first
        assert len(server.requests) == sent == len(REQUESTS)
        open_served(server, memo="off").loglikelihood(REQUESTS[:2])
        assert len(server.requests) == sent + 2


def test_a_failure_costs_only_its_request(folder: Path, open_served: Any) -> None:
    with serving(folder, "vllm") as server:
        server.faults = [400]
        with pytest.raises(ModelError, match=r"400 not now.*the same command continues"):
            open_served(server, max_concurrent=1).loglikelihood(REQUESTS)
        sent = len(server.requests)
        open_served(server).loglikelihood(REQUESTS)
        assert len(server.requests) == sent + 1


def test_a_busy_server_is_asked_again(folder: Path, open_served: Any) -> None:
    with serving(folder, "sglang") as server:
        server.faults = [503]
        model = open_served(server)
        model.loglikelihood(REQUESTS[:3])
        assert model.describe()["faults"] == {"503": 1}


def test_a_long_context_loses_its_beginning(folder: Path, open_served: Any) -> None:
    with serving(folder, "vllm") as server:
        model = open_served(server)
        requests = [Continuation(LONG_TEXT, " Yes"), REQUESTS[0]]
        assert model.loglikelihood(requests).truncated == {0}
        assert [model.has_room([request]) for request in requests] == [False, True]
        assert model.describe()["max_length"] == 94
    with serving(folder, "llama_cpp") as server, pytest.raises(ModelError, match="max_length="):
        open_served(server, tokenizer=str(limitless(folder))).loglikelihood(REQUESTS[:1])


def limitless(folder: Path) -> Path:
    """Let the tokenizer of a checkpoint declare no limit."""
    file = folder / "tokenizer_config.json"
    fields = json.loads(file.read_text())
    fields.pop("model_max_length", None)
    file.write_text(json.dumps(fields))
    return folder


def test_a_second_bos_of_llama_cpp_is_noticed(folder: Path, open_served: Any) -> None:
    """A model file may say that texts begin with the token although the tokenizer does not."""
    with_bos(folder, added=False)
    with serving(folder, "llama_cpp") as server:
        model = open_served(server, max_length=96)
        server.tokenizer = AutoTokenizer.from_pretrained(with_bos(folder, added=True))
        with pytest.raises(ModelError, match="splits texts into other tokens"):
            request = replace(REQUESTS[0], context=BOS + REQUESTS[0].context)
            model.tokenizer.backend_tokenizer.post_processor = ByteLevel()
            model.loglikelihood([request])


def test_other_words_of_llama_cpp_are_noticed(folder: Path, open_served: Any) -> None:
    with serving(with_bos(folder, added=True), "llama_cpp") as server:
        honest = server.llama_cpp

        def other(body: dict[str, Any]) -> dict[str, Any]:
            answer = honest(body)
            answer["choices"][0]["logprobs"]["tokens"][-2] = "?"  # the last of the text
            return answer

        server.llama_cpp = other  # type: ignore[method-assign]
        with pytest.raises(ModelError, match=r"splits texts into other tokens.*tokenizer="):
            open_served(server, max_length=96).loglikelihood(REQUESTS[:2])


def constant_scores(kind: str, body: dict[str, Any], logprob: float) -> dict[str, Any]:
    """The answer of a server that gives every token the same log-probability."""
    ids = body.get("prompt") or body["input_ids"][body["logprob_start_len"] :]
    if kind == "vllm":
        return {"choices": [{"prompt_logprobs": [None, *({str(token): {"logprob": logprob}} for token in ids[1:])]}]}
    return {"meta_info": {"input_token_logprobs": [[None, ids[0]], *([logprob, token] for token in ids[1:])]}}


@pytest.mark.parametrize(
    ("logprob", "message"), [(0.0, "log-probability 0 for every"), (3.5, "log-probability of 3.5")]
)
@pytest.mark.parametrize("kind", BY_IDS)
def test_what_is_no_logarithm_of_a_probability_is_neither_scored_nor_kept(
    folder: Path, kind: str, logprob: float, message: str, open_served: Any
) -> None:
    with serving(folder, kind) as server:
        honest = server.vllm, server.sglang
        server.vllm = server.sglang = lambda body: constant_scores(kind, body, logprob)  # type: ignore[method-assign]
        for _ in range(2):
            with pytest.raises(ModelError, match=message):
                open_served(server, max_length=96).loglikelihood(REQUESTS)
        server.vllm, server.sglang = honest  # type: ignore[method-assign]
        model = open_served(server, max_length=96)
        assert all(value < 0 for value in model.loglikelihood(REQUESTS).values)
        assert model.describe()["from_memo"] == 0


@pytest.mark.parametrize("kind", BY_IDS)
def test_one_option_may_be_certain(folder: Path, kind: str, open_served: Any) -> None:
    certain = [Continuation("Who?", "a"), Continuation("Why?", "b")]
    with serving(folder, kind) as server:
        model = open_served(server, max_length=96)
        (last,) = model.tokenizer("c")["input_ids"]

        def answer(body: dict[str, Any]) -> dict[str, Any]:
            ids = body.get("prompt") or body["input_ids"]
            return constant_scores(kind, body, -3.0 if ids[-1] == last else 0.0)

        server.vllm = server.sglang = answer  # type: ignore[method-assign]
        assert list(model.loglikelihood(certain).values) == [0.0, 0.0]
        assert model.loglikelihood([*certain, Continuation("Who?", "c")]).values[2] < 0


USELESS_RESPONSE = {"choices": [{"text": "a", "prompt_logprobs": [None]}]}


def test_an_answer_without_log_probabilities_is_not_kept(folder: Path, open_served: Any) -> None:
    with serving(folder, "vllm") as server:
        honest = server.vllm
        server.vllm = lambda _body: USELESS_RESPONSE  # type: ignore[method-assign]
        with pytest.raises(ModelError, match="gave no log-probabilities"):
            open_served(server, max_length=96).loglikelihood(REQUESTS)
        server.vllm = honest  # type: ignore[method-assign]
        assert all(logprob < 0 for logprob in open_served(server, max_length=96).loglikelihood(REQUESTS).values)


@pytest.mark.parametrize("text", ["[]", "not JSON", "[[7]]", "[[7, null]]", "{}"])
def test_a_useless_answer_that_an_earlier_version_kept_is_asked_again(
    folder: Path, text: str, own_home: Path, open_served: Any
) -> None:
    with serving(folder, "vllm") as server:
        model = open_served(server, max_length=96)
        expected = model.loglikelihood(REQUESTS).values
        (archive,) = (own_home / "api_memo").glob("*.sqlite3")
        with sqlite3.connect(archive) as connection:
            connection.execute("UPDATE answers SET answer = json_set(answer, '$.text', ?)", [text])
        connection.close()
        request_count = len(server.requests)
        assert open_served(server, max_length=96).loglikelihood(REQUESTS).values == expected
        assert len(server.requests) == 2 * request_count


def test_a_text_that_a_filter_refuses_has_no_log_likelihood(folder: Path, open_served: Any) -> None:
    with serving(folder, "vllm") as server:
        server.answer = lambda _path, _body: (400, {"error": {"code": "content_filter", "message": "flagged"}})  # type: ignore[method-assign]
        with pytest.raises(ModelError, match=r"gave no log-likelihood \(flagged\)"):
            open_served(server, max_length=96).loglikelihood(REQUESTS[:1])


@pytest.mark.parametrize("kind", BY_IDS)
def test_another_tokenizer_is_noticed(workshop: Workshop, folder: Path, kind: str, open_served: Any) -> None:
    other = workshop("llama", "ForCausalLM")
    with serving(other, kind) as server:
        server.vllm = server.sglang = lambda body: scores_of_other_ids(kind, body)  # type: ignore[method-assign]
        with pytest.raises(ModelError, match=r"splits texts into other tokens.*tokenizer="):
            open_served(server, tokenizer=str(folder), max_length=96).loglikelihood(REQUESTS[:2])


def scores_of_other_ids(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer of a server that read other ids."""
    ids = [token + 1 for token in body.get("prompt") or body["input_ids"]]
    if kind == "vllm":
        return {"choices": [{"prompt_logprobs": [None, *({str(token): {"logprob": -1.0}} for token in ids[1:])]}]}
    return {"meta_info": {"input_token_logprobs": [[-1.0, token, None] for token in ids]}}


@pytest.mark.parametrize("kind", BACKENDS)
def test_another_server_is_noticed(folder: Path, kind: str, open_model: Any) -> None:
    other = {"vllm": "sglang", "sglang": "vllm", "llama_cpp": "sglang"}[kind]
    with serving(with_bos(folder, added=True), other) as server:
        model = open_model(BACKENDS[kind], "tiny", base_url=server.url, tokenizer=str(folder), max_length=96)
        with pytest.raises(ModelError, match="404"):
            model.loglikelihood(REQUESTS[:2])


def test_no_server_and_no_tokenizer_are_one_line(folder: Path, open_model: Any) -> None:
    nobody = f"http://127.0.0.1:{free_port()}/v1"
    with pytest.raises(ModelError, match="no server at"):
        open_model("vllm_server", "tiny", base_url=nobody, tokenizer=str(folder)).loglikelihood(REQUESTS[:1])
    with pytest.raises(ModelError, match="tokenizer= to a folder or hub id"):
        open_model("vllm_server", "no/such/tiny", base_url=nobody)
    with pytest.raises(ModelError, match="not sampled"):
        open_model("vllm_server", "tiny", tokenizer=str(folder), temperature=0.5)


def test_answers_in_words_need_the_chat_template(folder: Path, open_model: Any) -> None:
    folder = str(talkative(folder))
    with pytest.raises(ModelError, match="--apply_chat_template or --no_chat_template"):
        open_model("sglang", "tiny", tokenizer=folder)
    chatting = open_model("sglang", "tiny", tokenizer=folder, apply_chat_template=True)
    turns = (Message("user", "Does it follow?"),)
    assert chatting.chat(turns) == open_model("causal", folder, apply_chat_template=True).chat(turns)
    assert chatting.api.client.url == "http://localhost:30000/v1/chat/completions"
    assert chatting.client.url == "http://localhost:30000/generate"
    assert not hasattr(open_model("sglang", "tiny", tokenizer=folder, apply_chat_template=False), "generate")
    plain = {"model_args": {"tokenizer": folder}, "apply_chat_template": False, "routes": {"choice": "by_letter"}}
    with pytest.raises(
        CapabilityError, match=r"needs generate; give --apply_chat_template .*, leave mini_proverbs out"
    ):
        figeval.run("mini_proverbs", "sglang:tiny", **plain)


NAMED_SCHEMA = {"name": "answer", "strict": True, "schema": ANSWER_SCHEMA}
FIELDS_OF_SERVER = {
    "vllm": {"structured_outputs": {"choice": ["A", "B"]}},
    "sglang": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": ANSWER_SCHEMA},
        }
    },
    "llama_cpp": {"response_format": {"type": "json_object", "schema": ANSWER_SCHEMA}},
}


@pytest.mark.parametrize("kind", BACKENDS)
def test_each_server_is_held_to_a_format_in_its_own_way(folder: Path, kind: str, desk: Desk, open_model: Any) -> None:
    model = open_model(
        BACKENDS[kind], "tiny", base_url=desk.url, tokenizer=str(talkative(folder)), apply_chat_template=True
    )
    model.generate([Prompt((Message("user", "A or B?"),), answer=AnswerFormat(("A", "B")))])
    assert desk.requests[0].items() >= FIELDS_OF_SERVER[kind].items()


BROKEN_RESPONSES = [
    ("vllm", {}, "no choices"),
    ("vllm", {"choices": [{}]}, "choices without log-probabilities"),
    ("vllm", {"choices": [{"prompt_logprobs": [None, None]}]}, "a row without a token"),
    ("vllm", {"choices": [{"prompt_logprobs": [None, {"7": {"logprob": "x"}}]}]}, "a text for a number"),
    ("vllm", {"choices": [{"prompt_logprobs": [None, {"seven": {"logprob": -1.0}}]}]}, "a text for an id"),
    ("vllm", {"choices": [{"prompt_logprobs": [None, {"7" * 5000: {"logprob": -1.0}}]}]}, "too long an id"),
    ("vllm", {"choices": [{"prompt_logprobs": [None, {"7": {"logprob": -(10**400)}}]}]}, "no float holds it"),
    ("sglang", {}, "no meta_info"),
    ("sglang", {"meta_info": {"input_token_logprobs": [[None, 1], [None, 2]]}}, "a log-probability that is null"),
    ("sglang", {"meta_info": {"input_token_logprobs": [[None, 1], [-1.0]]}}, "a row without its token"),
    ("sglang", {"meta_info": {"input_token_logprobs": [[None, 1], [-1.0, {}]]}}, "an object for a token"),
    ("llama_cpp", {"choices": [{"logprobs": None}]}, "logprobs that are null"),
    ("llama_cpp", {"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": []}}]}, "lists of different lengths"),
    (
        "llama_cpp",
        {"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": [None]}}], "usage": {"prompt_tokens": 9}},
        "fewer tokens than counted",
    ),
    (
        "llama_cpp",
        {
            "choices": [{"logprobs": {"tokens": ["a", "b", "c"], "token_logprobs": [None, -1.0, -2.0]}}],
            "usage": {"prompt_tokens": 10**400, "completion_tokens": 1},
        },
        "a count that no list can have",
    ),
]


@pytest.mark.parametrize(
    ("kind", "body", "reason"), BROKEN_RESPONSES, ids=[reason for _, _, reason in BROKEN_RESPONSES]
)
def test_a_response_that_is_no_answer_is_unreadable(
    kind: str, body: dict[str, Any], reason: str, folder: Path, open_served: Any
) -> None:
    with serving(with_bos(folder, added=True), kind) as server:
        server.answer = lambda _path, _body: (200, body)  # type: ignore[method-assign]
        with pytest.raises(ModelError, match=r"gave no log-likelihood \(unreadable response: "):
            open_served(server, max_length=96, max_retries=0).loglikelihood(REQUESTS[:1])


def test_a_limit_of_cost_needs_prices_on_every_server(folder: Path, open_model: Any) -> None:
    options: Any = {"base_url": "http://127.0.0.1:1/v1", "tokenizer": str(folder), "max_cost": 1}
    with pytest.raises(ModelError, match="--max_cost needs prices"):
        open_model("vllm_server", "tiny", **options)
    assert open_model("vllm_server", "tiny", **options, input_price=1, output_price=2).api.budget.bounded
