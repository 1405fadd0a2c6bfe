"""lm-eval's models as backends: what they offer, what they answer, and what they say when they cannot."""

from __future__ import annotations

import math
import socket
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from figeval import CapabilityError, Continuation, Harness, Message, ModelError, Prompt
from figeval.builtin.plugins.causal.language_model import causal
from figeval.builtin.plugins.lm_eval_bridge import lm_eval_models
from figeval.builtin.plugins.lm_eval_bridge.backend import lm_eval
from figeval.builtin.plugins.lm_eval_bridge.lm_eval_models import model_registry
from figeval.io.observer import listening
from figeval.task_types.routes import choose
from figeval.testing import ask, capabilities
from tests.listeners import Ears
from tests.plugins.lm_eval_bridge.server import serve
from tests.plugins.servers import talkative
from tests.plugins.tiny import LINES, LONG_TEXT, POSITIONS, Workshop

REQUESTS = [
    *(Continuation(line, f" {other}") for line in LINES[:3] for other in ("Yes", "No, it does not.")),
    Continuation("Does it follow? ", "Yes"),
    Continuation("", "Empty vessels"),
    Continuation(" ", "Empty vessels"),
]
PROMPT = Prompt((Message("system", "Be brief."), Message("user", LINES[0])), max_new_tokens=5)


@pytest.fixture(scope="module")
def gpt2(workshop: Workshop) -> Path:
    return workshop("gpt2", "LMHeadModel")


# ---- models in this process ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 16, "auto"])
def test_hf_answers_as_our_own_engine_does(batch_size: Any, gpt2: Path) -> None:
    bridged = lm_eval("hf", pretrained=str(gpt2), batch_size=batch_size, device="cpu")
    scored = bridged.loglikelihood(REQUESTS)
    np.testing.assert_allclose(scored.values, causal(str(gpt2), device="cpu").loglikelihood(REQUESTS).values, rtol=1e-4)
    assert scored.truncated == set()


def test_what_does_not_fit_is_reported(gpt2: Path) -> None:
    bridged, ours = lm_eval("hf", pretrained=str(gpt2)), causal(str(gpt2))
    words = " a" * (POSITIONS + 5)
    context = words[: 2 * POSITIONS]
    exact = [
        Continuation(LONG_TEXT, " Yes"),
        Continuation(context, " a"),
        Continuation(context + " a", " a"),
        REQUESTS[0],
    ]
    scored = bridged.loglikelihood(exact)
    assert scored.truncated == {0, 2} == ours.loglikelihood(exact).truncated
    np.testing.assert_allclose(scored.values, ours.loglikelihood(exact).values, rtol=1e-4)
    long = Prompt((Message("user", LONG_TEXT),), max_new_tokens=5)
    assert bridged.generate([PROMPT, long]).truncated == {1}


def test_generation_is_that_of_our_own_engine(gpt2: Path) -> None:
    bridged, ours = lm_eval("hf", pretrained=str(gpt2)), causal(str(gpt2))
    stopped = Prompt((Message("user", LINES[1]),), stop=("e",), max_new_tokens=8)
    assert list(bridged.generate([PROMPT, stopped]).values) == list(ours.generate([PROMPT, stopped]).values)


def test_every_answer_is_counted_before_the_call_returns(gpt2: Path) -> None:
    bridged = lm_eval("hf", pretrained=str(gpt2), batch_size=2, device="cpu")
    ears = Ears()
    with listening(ears):
        ask(bridged, REQUESTS)
        ask(bridged, [PROMPT, Prompt((Message("user", LINES[1]),), max_new_tokens=3)])
    assert ears.heard == [*((answered, len(REQUESTS)) for answered in range(len(REQUESTS) + 1)), (0, 2), (1, 2), (2, 2)]


def test_seq2seq(workshop: Workshop) -> None:
    folder = str(workshop("t5", "ForConditionalGeneration"))
    bridged = lm_eval("hf", pretrained=folder)
    assert len(bridged.loglikelihood(REQUESTS[:4]).values) == 4
    assert bridged.loglikelihood([Continuation(LONG_TEXT, " Yes")]).truncated == {0}
    assert bridged.generate([PROMPT]).values[0].finish in ("stop", "length")


def test_a_chat_template_is_there_when_it_is_asked_for(workshop: Workshop, tmp_path: Path) -> None:
    import shutil

    folder = talkative(Path(shutil.copytree(workshop("gpt2", "LMHeadModel"), tmp_path / "chat")))
    plain, chatty = (lm_eval("hf", pretrained=str(folder), apply_chat_template=on) for on in (False, True))
    assert not plain.is_chat_model
    assert not hasattr(plain, "chat")
    assert chatty.is_chat_model
    shown = chatty.chat(PROMPT.messages)
    assert shown == f"system: Be brief.\nuser: {LINES[0]}\nassistant:"
    prompt = Prompt((Message("user", shown),), max_new_tokens=5)
    assert chatty.generate([PROMPT]).values == plain.generate([prompt]).values
    assert (chatty.describe()["chat_template"], plain.describe()["chat_template"]) == (True, False)
    ids = chatty.describe()["first_prompt_ids"]
    assert ids == chatty.lm.tok_encode(shown)
    with pytest.raises(ModelError, match="has a chat template; use --apply_chat_template or --no_chat_template"):
        lm_eval("hf", pretrained=str(folder))
    with pytest.raises(ModelError, match="has no chat template; leave --apply_chat_template out"):
        lm_eval("hf", pretrained=str(workshop("gpt2", "LMHeadModel")), apply_chat_template=True)
    with pytest.raises(ModelError, match="no chat template"):
        lm_eval("gguf", base_url="http://127.0.0.1:9", apply_chat_template=True)


def test_dummy_and_every_name(gpt2: Path) -> None:
    bridged = lm_eval("dummy")
    assert len(bridged.loglikelihood(REQUESTS).values) == len(REQUESTS)
    (reply,) = bridged.generate([PROMPT]).values
    assert (reply.text, reply.finish) == ("lol", "stop")
    assert {"hf", "vllm", "local-completions", "openai-chat-completions", "gguf", "figeval-hf"} <= set(model_registry())


def test_nothing_is_printed(gpt2: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bridged = lm_eval("hf", pretrained=str(gpt2))
    bridged.loglikelihood([*REQUESTS, Continuation(LONG_TEXT, " Yes")])
    bridged.generate([PROMPT])
    lm_eval("dummy").loglikelihood(REQUESTS)
    assert capfd.readouterr() == ("", "")


def test_the_fingerprint_follows_what_changes_an_answer(gpt2: Path, workshop: Workshop, tmp_path: Path) -> None:
    import shutil

    moved = shutil.copytree(gpt2, tmp_path / "moved")
    fingerprint = lm_eval("hf", pretrained=str(gpt2), batch_size=4).fingerprint()
    assert fingerprint == lm_eval("hf", pretrained=str(moved), batch_size=8).fingerprint()
    assert fingerprint != lm_eval("hf", pretrained=str(gpt2), max_length=20).fingerprint()
    assert fingerprint != lm_eval("hf", pretrained=str(workshop("llama", "ForCausalLM"))).fingerprint()
    assert "sha256:" in fingerprint
    assert str(gpt2) not in fingerprint


def test_the_record(gpt2: Path) -> None:
    bridged = lm_eval("hf", pretrained=str(gpt2), device="cpu")
    assert bridged.describe()["class"] == "HFLM"
    bridged.loglikelihood(REQUESTS[:1])
    assert bridged.describe()["max_length"] == POSITIONS
    assert bridged.describe()["device"] == "cpu"
    ours = causal(str(gpt2))
    ours.loglikelihood(REQUESTS[:1])
    assert bridged.describe()["parameters"] == ours.describe()["parameters"]
    bridged.close()
    assert "max_length" not in bridged.describe()


# ---- models behind an API --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrent", [1, 3])
def test_a_completions_server_scores_and_writes(concurrent: int, gpt2: Path) -> None:
    with serve(gpt2) as served:
        options: dict[str, Any] = {
            "model": "tiny",
            "base_url": f"{served.address}/completions",
            "tokenizer": str(gpt2),
            "tokenizer_backend": "huggingface",
            "num_concurrent": concurrent,
            "max_length": POSITIONS,
        }
        remote = lm_eval("local-completions", **options)
        assert capabilities(remote) == {"loglikelihood", "generate"}
        assert not remote.is_chat_model
        ears = Ears()
        with listening(ears):
            ask(remote, REQUESTS)
        assert ears.heard == [(answered, len(REQUESTS)) for answered in range(len(REQUESTS) + 1)]
        expected = causal(str(gpt2)).loglikelihood(REQUESTS).values
        np.testing.assert_allclose(remote.loglikelihood(REQUESTS).values, expected, rtol=1e-4)
        assert remote.loglikelihood([Continuation(LONG_TEXT, " Yes")]).truncated == {0}
        assert remote.generate([PROMPT]).values == causal(str(gpt2)).generate([PROMPT]).values


@pytest.mark.parametrize("concurrent", [1, 3])
def test_a_chat_server_is_sent_the_conversation(concurrent: int, gpt2: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = Prompt((Message("user", "B?"),), stop=("\n",), max_new_tokens=3)
    with serve(gpt2) as served:
        address = f"{served.address}/chat/completions"
        remote = lm_eval("local-chat-completions", model="tiny", base_url=address, num_concurrent=concurrent)
        assert capabilities(remote) == {"generate"}
        assert remote.is_chat_model
        replies = remote.generate([PROMPT, other]).values
    letters = ["ABC"[len(text) % 3] for text in (LINES[0], "B?")]
    assert [reply.text for reply in replies] == [f"The answer is {letter}." for letter in letters]
    first = next(request for request in served.requests if len(request["messages"]) == 2)
    assert [(turn["role"], turn["content"]) for turn in first["messages"]] == [
        ("system", "Be brief."),
        ("user", LINES[0]),
    ]
    assert (first["max_tokens"], first["temperature"]) == (5, 0)
    assert capfd.readouterr() == ("", "")
    assert "no_loglikelihood" in remote.describe()


def test_a_chat_model_goes_another_way_or_says_so() -> None:
    remote = lm_eval("local-chat-completions", model="tiny", base_url="http://127.0.0.1:9/v1/chat/completions")
    routes = Harness().routes
    assert choose("choice", capabilities(remote), routes).name == "by_letter"
    assert choose("pairs", capabilities(remote), routes).name == "by_label_word"
    with pytest.raises(CapabilityError, match=r"offers generate, which is not enough.*by_loglikelihood needs loglik"):
        choose("choice", capabilities(remote), routes, "by_loglikelihood")


@pytest.mark.parametrize("name", ["local-chat-completions", "local-completions"])
def test_a_server_that_is_down(name: str, gpt2: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    options = {"tokenizer": str(gpt2), "tokenizer_backend": "huggingface"} if name == "local-completions" else {}
    remote = lm_eval(name, model="tiny", base_url=address, max_retries=1, **options)
    with pytest.raises(ModelError, match=f"lm_eval:{name} at {address} did not answer: .*refused"):
        remote.generate([PROMPT])


# ---- what a class can do ---------------------------------------------------------------------------------------------


def importable() -> list[tuple[str, type]]:
    kinds = []
    for name in list(model_registry()):
        try:
            kinds.append((name, model_registry()[name]))
        except (ImportError, ValueError):  # not installed, or registered twice by lm-eval itself
            continue
    return kinds


def test_the_table_and_the_source_say_the_same() -> None:
    """So that a class which is not in the table is still recognised."""
    refusals = {name: lm_eval_models.refuses(kind, "loglikelihood") for name, kind in importable()}
    assert {name for name, refuses in refusals.items() if refuses} == set(refusals) & set(
        lm_eval_models.NO_LOGLIKELIHOOD
    )
    assert (
        len([name for name in refusals if name in lm_eval_models.NO_LOGLIKELIHOOD]) >= 5
    )  # those of the oldest release


def test_only_a_method_that_does_nothing_but_raise_is_a_refusal() -> None:
    class Base:
        def loglikelihood(self, requests: Any) -> Any:
            """Never."""
            raise NotImplementedError("no")

        def generate_until(self, requests: Any) -> Any:
            if requests:
                raise NotImplementedError
            return []

    class Child(Base):
        def loglikelihood(self, requests: Any) -> Any:
            return [(0.0, True) for _ in requests]

    assert lm_eval_models.refuses(Base, "loglikelihood")
    assert not lm_eval_models.refuses(Base, "generate_until")
    assert not lm_eval_models.refuses(Child, "loglikelihood")
    assert lm_eval_models.capabilities_of("new", Base, {}) == {"generate"}
    named_class = type("Named", (), {"loglikelihood": lambda self, requests: [], "generate_until": Base.generate_until})
    assert not lm_eval_models.refuses(named_class, "loglikelihood")
    unwritten = type("Unwritten", (), {"loglikelihood": len, "generate_until": len})
    assert lm_eval_models.capabilities_of("built", unwritten, {}) == {"generate", "loglikelihood"}


@pytest.mark.parametrize(("model", "able"), [("babbage-002", True), ("gpt-3.5-turbo-instruct", False)])
def test_openai_scores_prompts_of_two_models_only(model: str, able: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    assert ("loglikelihood" in capabilities(lm_eval("openai-completions", model=model))) is able


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("hff", {}, "lm-eval .* has no model 'hff'; did you mean 'hf'"),
        ("", {}, "say which: --model lm_eval:NAME; it has"),
        ("vllm", {"pretrained": "x"}, r"lm_eval:vllm needs vllm: pip install 'lm-eval\[vllm\]'"),
        ("local-completions", {"base_url": "http://x", "num_concurent": 2}, "no option 'num_concurent'; did you mean"),
        ("local-chat-completions", {"api_key": "s3cret"}, "api_key looks like a secret.*OPENAI_API_KEY"),
        ("local-completions", {"auth_token": "s3cret"}, "auth_token looks like a secret"),
        ("local-completions", {"header": {"Authorization": "s3cret"}}, "Authorization looks like a secret"),
        ("local-completions", {"base_url": "https://me:s3cret@host/v1"}, "base_url looks like a secret"),
        ("anthropic-chat", {"model": "x", "x_api_key": "s3cret"}, "looks like a secret.*ANTHROPIC_API_KEY"),
        ("hf", {"pretrained": "x", "token": "s3cret"}, "token looks like a secret.*HF_TOKEN"),
        ("hf", {"pretrained": "x", "model_kwargs": {"token": "s3cret"}}, "token looks like a secret"),
        ("openai-chat-completions", {"model": "x"}, "needs a key: set the environment variable OPENAI_API_KEY"),
        ("anthropic-chat", {"model": "x"}, "needs a key: set the environment variable ANTHROPIC_API_KEY"),
        ("hf", {"pretrained": "no/such/folder"}, "there is no folder"),
    ],
    ids=str,
)
def test_refused_at_once_and_in_one_line(
    name: str, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in set(lm_eval_models.KEYS.values()):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ModelError, match=message) as refused:
        lm_eval(name, **options)
    assert "s3cret" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "option", sorted(lm_eval_models.HARMLESS | {"prefix_token_id", "max_gen_toks", "tokenizer", "add_bos_token"})
)
def test_no_secrets(option: str) -> None:
    lm_eval_models.check_no_secret("hf", option, "</think>")


def test_options_that_the_class_chokes_on(gpt2: Path) -> None:
    with pytest.raises(
        ModelError, match="lm_eval:gguf cannot be created with these --model_args: must pass `base_url`"
    ):
        _ = lm_eval("gguf").lm
    with pytest.raises(ModelError, match=r"lm_eval:hf cannot be created with these --model_args: .*no_such_thing"):
        _ = lm_eval("hf", pretrained=str(gpt2), no_such_thing=1).lm


@pytest.mark.parametrize(
    ("kind", "head", "cure"),
    [
        ("roberta", "ForMaskedLM", "masked"),
        ("bert", "ForSequenceClassification", "pairs"),
        ("mpnet", "Model", "encoder"),
    ],
)
def test_an_encoder_is_refused(kind: str, head: str, cure: str, workshop: Workshop) -> None:
    folder = workshop(kind, head)
    with pytest.raises(ModelError, match=f"use --model {cure}:{folder}"):
        lm_eval("hf", pretrained=str(folder))


def test_an_empty_continuation(gpt2: Path) -> None:
    requests = [Continuation("It means", continuation) for continuation in ("", " ", " Yes")]
    *empty, yes = lm_eval("hf", pretrained=str(gpt2)).loglikelihood(requests).values
    assert all(map(math.isnan, empty))
    assert yes < 0


def test_it_is_a_backend_by_its_name(gpt2: Path) -> None:
    harness = Harness()
    with harness.open_model("lm_eval:hf", {"pretrained": str(gpt2)}, {"device": "cpu", "seed": 0}) as model:
        assert (model.backend_name, model.offers) == ("lm_eval", {"loglikelihood", "generate"})
    refusal = "has no model 'local-chat-completion'; did you mean 'local-chat-comp"
    with pytest.raises(ModelError, match=refusal), harness.open_model("lm_eval:local-chat-completion", {}):
        pass


# ---- lm-eval itself stays as it is -----------------------------------------------------------------------------------

IMPORT_PROGRAM = """
import sys
import figeval.runs
from figeval.builtin.plugins.lm_eval_bridge import backend, tasks
from lm_eval.api.registry import get_model
from lm_eval.models import MODEL_MAPPING
assert get_model("hf").__name__ == "HFLM"
assert get_model("figeval-hf").__name__ == "FigevalHF"
from figeval.builtin.plugins.lm_eval_bridge.lm_eval_models import model_registry
assert set(model_registry()) - set(MODEL_MAPPING) <= {"figeval-hf", "azure-openai-chat-completions"}, model_registry()
"""


def test_importing_figeval_hides_none_of_its_models(warm: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [warm / "python", "-c", IMPORT_PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_models_of_other_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from figeval.builtin.plugins.lm_eval_bridge import lm_eval_models

    points = [
        EntryPoint("acme-dummy", "lm_eval.models.dummy:DummyLM", lm_eval_models.GROUP),
        EntryPoint("hf", "nowhere:Impostor", lm_eval_models.GROUP),
    ]
    monkeypatch.setattr(lm_eval_models, "entry_points", lambda group: points)
    try:
        assert capabilities(lm_eval("acme-dummy")) == {"loglikelihood", "generate"}
        assert model_registry()["hf"].__name__ == "HFLM"
    finally:
        model_registry()._objs.pop("acme-dummy", None)
