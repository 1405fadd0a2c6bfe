"""Models in vLLM, imitated by transformers with its prefix cache and order of answers; the real one: `make engines`."""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import GenerationConfig

from figeval import (
    AnswerFormat,
    Continuation,
    FigevalError,
    Harness,
    Message,
    ModelError,
    Prompt,
    Reply,
    TaskError,
    Text,
)
from tests.plugins.servers import talkative
from tests.plugins.test_thinking import CASES, QUESTION, checkpoint
from tests.plugins.tiny import LINES, LONG_TEXT, POSITIONS, Workshop

IMITATION_FOLDER = Path(__file__).parent.parent / "engines" / "imitation"
WAYS = ("rows", "cached", "tree")
REQUESTS = [
    *(Continuation(line, f" {other}") for line in LINES for other in ("Yes", "Yes, it does.", "No, it does not.")),
    Continuation("Does it follow? ", "Yes"),
    Continuation("", "Empty vessels"),
]


@pytest.fixture(autouse=True)
def install_imitation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The imitation in place of vLLM."""
    monkeypatch.syspath_prepend(IMITATION_FOLDER)
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "ERROR")  # set here, so that it is restored
    import vllm as imitation

    assert imitation.__version__.endswith("imitation")
    yield imitation
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("kind", "scoring"), [*(("llama", scoring) for scoring in WAYS), ("gpt2", "auto"), ("gpt2", WAYS[0])]
)
def test_log_likelihoods_are_those_of_causal(workshop: Workshop, kind: str, scoring: str, open_model: Any) -> None:
    folder = str(workshop(kind, "LMHeadModel" if kind == "gpt2" else "ForCausalLM"))
    expected = open_model("causal", folder).loglikelihood(REQUESTS)
    model = open_model("vllm", folder, scoring=scoring)
    for _ in range(2):  # the second time, the cache holds all texts whole
        scores = model.loglikelihood(REQUESTS)
        np.testing.assert_allclose(scores.values, expected.values, atol=1e-4)
    assert scores.truncated == expected.truncated == set()
    assert max(expected.values) - min(expected.values) > 1


def test_options_of_a_context_are_read_together_and_contexts_in_their_order(gpt2: Path, open_model: Any) -> None:
    """So that an example is complete, and stored, before the next one is begun."""
    lines = [*LINES[::-1], *LINES[::-1]]
    options = [" Yes"] * len(LINES) + [" No"] * len(LINES)
    requests = [Continuation(line, option) for line, option in zip(lines, options, strict=True)]
    stream = open_model("vllm", gpt2, scoring="rows").loglikelihood(requests)
    steps = [sorted(LINES[::-1].index(requests[row].context) for row in part.rows) for part in stream.parts]
    seen = [index for step in steps for index in step]
    assert seen == sorted([*range(len(LINES))] * 2)


def test_the_tree_splits_a_node_with_many_words(gpt2: Path, install_imitation: Any, open_model: Any) -> None:
    letters = [chr(code) for code in (*range(33, 127), *range(192, 382)) if chr(code).isalpha()]
    requests = [Continuation("Does it follow?", f" {letter}") for letter in letters]
    before = install_imitation.LLM.count
    scores = open_model("vllm", gpt2, scoring="tree").loglikelihood(requests).values
    np.testing.assert_allclose(scores, open_model("causal", gpt2).loglikelihood(requests).values, atol=1e-4)
    assert install_imitation.LLM.count - before < len(requests)


def test_the_ways_are_measured_per_number_of_options(gpt2: Path, open_model: Any) -> None:
    model = open_model("vllm", gpt2)
    model.loglikelihood(REQUESTS).gathered()
    model.loglikelihood([Continuation(LINES[0], f" {word}") for word in "abcdefghijkl"]).gathered()
    trials = model.describe()["scoring"]
    assert [trial["options"] for trial in trials] == [2, 8]
    for trial in trials:
        assert set(trial["seconds"]) == set(WAYS)
        assert trial["way"] == min(trial["seconds"], key=trial["seconds"].get)
        assert all(
            difference < 1e-4 for difference in trial["apart"].values() if difference is not None
        )  # None: stopped


def test_a_way_that_is_wrong_is_not_used(
    gpt2: Path, install_imitation: Any, monkeypatch: pytest.MonkeyPatch, open_model: Any
) -> None:
    """An engine whose cache changes numbers: only whole rows remain, however slow they are."""
    honest = install_imitation.LLM.answer

    def skewed(self: Any, request_id: str, ids: list[int], params: Any) -> Any:
        output = honest(self, request_id, ids, params)
        if not params.skip_reading_prefix_cache:
            for row in (*output.outputs[0].logprobs, *filter(None, output.prompt_logprobs or ())):
                for logprob in row.values():
                    logprob.logprob -= 0.5
        return output

    monkeypatch.setattr(install_imitation.LLM, "answer", skewed)
    model = open_model("vllm", gpt2)
    np.testing.assert_allclose(
        model.loglikelihood(REQUESTS).values, open_model("causal", gpt2).loglikelihood(REQUESTS).values, atol=1e-4
    )
    assert {trial["way"] for trial in model.describe()["scoring"]} == {"rows"}


def break_logprobs(installed: Any, monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    """Let the engine give this log-probability for every token."""
    honest = installed.LLM.answer

    def broken(self: Any, request_id: str, ids: list[int], params: Any) -> Any:
        output = honest(self, request_id, ids, params)
        for row in (*(output.outputs[0].logprobs or ()), *filter(None, output.prompt_logprobs or ())):
            for token in row.values():
                token.logprob = value
        return output

    monkeypatch.setattr(installed.LLM, "answer", broken)


@pytest.mark.parametrize(
    ("dtype", "shift", "way"), [("bfloat16", 0, "tree"), ("bfloat16", 1, "rows"), ("float32", 0, "rows")]
)
def test_in_half_precision_a_way_may_differ_as_much_as_rows_differ_from_themselves(
    gpt2: Path,
    dtype: str,
    shift: int,
    way: str,
    open_model: Any,
    install_imitation: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By more than a fixed number of nats; but an option with the score of the next one is a mistake."""
    from vllm.platforms import current_platform

    monkeypatch.setattr(current_platform, "device_type", "cuda")
    generator = np.random.default_rng(0)
    honest = install_imitation.LLM.answer

    def noisy(self: Any, request_id: str, ids: list[int], params: Any) -> Any:
        output = honest(self, request_id, ids, params)
        (words,) = output.outputs[0].logprobs
        if output.prompt_logprobs:
            time.sleep(0.01 if params.skip_reading_prefix_cache else 0.03)
        for row in (words, *filter(None, output.prompt_logprobs or ())):
            for token, logprob in row.items():
                logprob.logprob = -5.0 - 3 * token % 40 + generator.normal(0, 0.5)
        output.outputs[0].logprobs = [
            dict(zip(words, [*words.values()][shift:] + [*words.values()][:shift], strict=True))
        ]
        return output

    monkeypatch.setattr(install_imitation.LLM, "answer", noisy)
    model = open_model("vllm", gpt2, dtype=dtype)
    model.loglikelihood([Continuation(LINES[0], f" {letter}") for letter in "abcdefghijklmnop"]).gathered()
    (trial,) = model.describe()["scoring"]
    assert trial["way"] == way, trial


@pytest.mark.parametrize(("value", "message"), [(0.0, "probability 0 for every"), (2.5, "gave a log-probability of")])
def test_what_is_no_logarithm_of_a_probability_is_not_scored(
    gpt2: Path, value: float, message: str, install_imitation: Any, monkeypatch: pytest.MonkeyPatch, open_model: Any
) -> None:
    break_logprobs(install_imitation, monkeypatch, value)
    with pytest.raises(ModelError, match=message):
        list(open_model("vllm", gpt2).loglikelihood(REQUESTS).values)


@pytest.mark.parametrize("value", [float("nan"), -float("inf")])
@pytest.mark.parametrize("scoring", [*WAYS, "auto"])
def test_a_model_that_is_broken_does_not_seem_certain(
    gpt2: Path, value: float, scoring: str, install_imitation: Any, monkeypatch: pytest.MonkeyPatch, open_model: Any
) -> None:
    break_logprobs(install_imitation, monkeypatch, value)
    model = open_model("vllm", gpt2, scoring=scoring)
    np.testing.assert_equal(model.loglikelihood(REQUESTS).values, [value] * len(REQUESTS))


def test_a_long_context_loses_its_beginning_and_is_reported(gpt2: Path, open_model: Any) -> None:
    model = open_model("vllm", gpt2)
    requests = [Continuation(LONG_TEXT, " Yes"), REQUESTS[0]]
    assert [model.has_room([request]) for request in requests] == [False, True]
    assert "engine" not in vars(model)
    output = model.loglikelihood(requests)
    assert output.truncated == {0}
    assert np.isfinite(output.values).all()
    assert model.describe()["max_length"] == POSITIONS


def test_answers_are_those_of_causal(gpt2: Path, open_model: Any) -> None:
    prompts = [Prompt((Message("user", line),), max_new_tokens=6) for line in (*LINES, LONG_TEXT)]
    expected = open_model("causal", gpt2).generate(prompts)
    replies = open_model("vllm", gpt2).generate(prompts)
    assert [(reply.text, reply.finish) for reply in replies.values] == [
        (reply.text, reply.finish) for reply in expected.values
    ]
    assert replies.truncated == expected.truncated == {len(LINES)}
    stop = replies.values[0].text[2:4]
    (stopped,) = (
        open_model("vllm", gpt2).generate([Prompt((Message("user", LINES[0]),), stop=(stop,), max_new_tokens=6)]).values
    )
    assert (stopped.text, stopped.finish) == (replies.values[0].text.partition(stop)[0], "stop")


@pytest.mark.slow
def test_every_request_is_sampled_with_a_seed_of_its_own(gpt2: Path, open_model: Any) -> None:
    prompts = [Prompt((Message("user", line),), max_new_tokens=12) for line in LINES]
    options = {"temperature": 0.9, "top_k": 20, "top_p": 1}

    def texts(requests: list[Prompt], **flags: Any) -> list[str]:
        return [reply.text for reply in open_model("vllm", gpt2, **options, **flags).generate(requests).values]

    sampled = texts(prompts)
    assert texts(prompts[::-1])[::-1] == sampled == texts(prompts[:2]) + texts(prompts[2:])
    assert texts(prompts, seed=1) != sampled
    model = open_model("vllm", gpt2, **options)
    model.generate(prompts).gathered()
    assert model.describe()["sampling"] == {**options, "seed": 0}
    assert "vLLM" in model.describe()["warnings"][0]


def test_penalties_of_the_generation_config_are_those_of_causal(gpt2: Path, tmp_path: Path, open_model: Any) -> None:
    """Qwen2.5's config asks for one; vLLM applies it only if it is told."""
    folder = Path(shutil.copytree(gpt2, tmp_path / "penal"))
    prompts = [Prompt((Message("user", line),), max_new_tokens=12) for line in LINES]
    plain = [reply.text for reply in open_model("vllm", folder).generate(prompts).values]
    config = GenerationConfig.from_pretrained(folder)
    config.repetition_penalty = 4.0
    config.save_pretrained(folder)
    texts = [reply.text for reply in open_model("vllm", folder).generate(prompts).values]
    assert texts == [reply.text for reply in open_model("causal", folder).generate(prompts).values] != plain


def test_answers_come_while_others_are_written(gpt2: Path, install_imitation: Any, open_model: Any) -> None:
    """A reader that stops early keeps what it has, and takes the other requests back."""
    model = open_model("vllm", gpt2)
    prompts = [Prompt((Message("user", line),), max_new_tokens=2) for line in LINES]
    stream = model.generate(prompts)
    part = next(stream.parts)
    assert len(part.rows) == install_imitation.STEP < len(prompts)
    assert list(part.rows) != sorted(part.rows)
    stream.parts.close()
    assert model.engine.llm.queue == []
    assert len(model.generate(prompts[:2]).values) == 2


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_that_vllm_breaks_off_is_no_empty_answer(
    gpt2: Path, reason: str, install_imitation: Any, monkeypatch: pytest.MonkeyPatch, open_model: Any
) -> None:
    honest = install_imitation.LLM.answer

    def broken(self: Any, request_id: str, ids: list[int], params: Any) -> Any:
        output = honest(self, request_id, ids, params)
        output.outputs[0].token_ids, output.outputs[0].finish_reason = [], reason
        return output

    monkeypatch.setattr(install_imitation.LLM, "answer", broken)
    model = open_model("vllm", gpt2)
    (reply,) = model.generate([Prompt((Message("user", LINES[0]),), max_new_tokens=6)]).values
    assert (reply.text, reply.finish, reply.error) == ("", "error", "vLLM broke it off")


def test_an_answer_is_held_to_its_format(gpt2: Path, open_model: Any) -> None:
    model = open_model("vllm", gpt2)
    letters, formats, llm = AnswerFormat(("A", "B")), list[Any](), model.engine.llm
    llm.matcher = lambda held: formats.append(held) or type(llm).matcher(llm, held)
    prompts = [Prompt((Message("user", line),), max_new_tokens=4, answer=letters) for line in LINES]
    replies = model.generate(prompts).values
    assert {reply.text.removeprefix(" ") for reply in replies} <= {"A", "B"}
    assert {(reply.finish, reply.reasoning_tokens) for reply in replies} == {("stop", 0)}
    expected = open_model("causal", model.checkpoint.model).generate(prompts).values
    assert [reply.text for reply in replies] == [reply.text for reply in expected]
    assert [held.grammar for held in formats] == ['root ::= " "? ("A" | "B")'] * len(LINES), "a blank, if no template"
    model.generate([replace(prompts[0], answer=None)]).gathered()
    assert formats[-1] is None
    assert model.constrains_answers and "vllm" in Harness().backends.constraining()


def test_objects_are_those_of_causal(gpt2: Path, open_model: Any) -> None:
    """On one line: blanks without end would be within the schema, and small models write them."""
    answer = AnswerFormat.of_object({"quote": {"type": "string"}})
    prompts = [Prompt((Message("user", line),), max_new_tokens=24, answer=answer) for line in LINES]
    texts = [reply.text for reply in open_model("vllm", gpt2).generate(prompts).values]
    assert texts == [reply.text for reply in open_model("causal", gpt2).generate(prompts).values]
    assert all(text.startswith('{"quote": "') for text in texts)


def test_chat_templates_are_used_as_asked(gpt2: Path, tmp_path: Path, open_model: Any) -> None:
    folder = str(talkative(Path(shutil.copytree(gpt2, tmp_path / "chat"))))
    with pytest.raises(ModelError, match="--apply_chat_template or --no_chat_template"):
        open_model("vllm", folder)
    chatting = open_model("vllm", folder, apply_chat_template=True)
    turns = (Message("user", "Does it follow?"),)
    assert chatting.chat(turns) == open_model("causal", folder, apply_chat_template=True).chat(turns)
    assert not hasattr(open_model("vllm", folder, apply_chat_template=False), "chat")


class Thinker:
    """A tiny model that thinks, and writes what it is told as long as no format holds."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.sent: list[Any] = []

    def tokens(self, *texts: str) -> list[int]:
        """The tokens of some texts, one after another."""
        return [token for text in texts for token in self.model.tokenizer.encode(text, add_special_tokens=False)]

    def reply_to(self, texts: list[str], max_tokens: int, stop: tuple[str, ...] = (), **fields: Any) -> Reply:
        """The reply if the model writes these texts, and then nothing but its last token."""
        ids, llm, self.sent = self.tokens(*texts), self.model.engine.llm, []
        add = type(llm).add_request

        def dictate(read: list[int], text: list[int], _scores: object) -> int:
            return ids[min(len(read) + len(text) - len(self.sent[0][0]), len(ids) - 1)]

        def note(request_id: str, prompt: dict[str, list[int]], params: Any) -> None:
            self.sent.append((prompt["prompt_token_ids"], params))
            add(llm, request_id, prompt, params)

        llm.likeliest, llm.add_request = dictate, note
        (reply,) = self.model.generate([Prompt(QUESTION, stop=stop, max_new_tokens=max_tokens, **fields)]).values
        return reply


Opening = Callable[..., Thinker]


@pytest.fixture
def open_thinker(workshop: Workshop, tmp_path: Path, open_model: Any) -> Opening:
    """Return a function that opens a thinker with the template of a case."""

    def open_case(case: dict[str, Any], reasoning: str = "") -> Thinker:
        folder = checkpoint(case, tmp_path / "model", workshop)
        return Thinker(open_model("vllm", folder, apply_chat_template=True, reasoning=reasoning))

    return open_case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_thinking_and_answer_are_told_apart(case: dict[str, Any], open_thinker: Opening) -> None:
    thinker = open_thinker(case, "budget=40")
    thought, mark, answer = (len(thinker.tokens(text)) for text in case["written"])
    reply = thinker.reply_to(case["written"], answer)
    assert (reply.text, reply.reasoning, reply.finish) == (case["answer"], case["reasoning"], "length")
    assert (reply.reasoning_tokens, reply.answer_tokens) == (thought + mark, answer)
    (prompt, first), (continued, second) = thinker.sent
    assert len(continued) == len(prompt) + thought + mark, "the prefix cache knows the prompt and what was written"
    assert len(first.stop) == 1 and second.stop == []
    assert (first.max_tokens, second.max_tokens) == (answer + min(80, POSITIONS - len(prompt) - answer), answer)


@pytest.mark.parametrize("reasoning", ["", "budget=6", "off"])
def test_thinking_is_that_of_causal(reasoning: str, workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    folder = checkpoint(CASES[0], tmp_path / "model", workshop)
    options = {"apply_chat_template": True, "reasoning": reasoning}
    prompts = [Prompt((Message("user", line),), stop=("it",), max_new_tokens=8) for line in LINES]
    assert list(open_model("vllm", folder, **options).generate(prompts).values) == list(
        open_model("causal", folder, **options).generate(prompts).values
    )


def test_thinking_that_the_model_opens_itself_shares_the_tokens_of_the_answer(open_thinker: Opening) -> None:
    thinker = open_thinker(CASES[0])
    texts = ["<think>\nHm.", "\n</think>", "\n\nYes"]
    max_tokens = len(thinker.tokens(*texts))
    reply = thinker.reply_to(texts, max_tokens, ("H",))
    assert (reply.text, reply.reasoning, reply.finish) == ("Yes", "Hm.", "length")
    assert (reply.reasoning_tokens or 0) + (reply.answer_tokens or 0) == max_tokens
    assert [params.stop for _, params in thinker.sent] == [["</think>", "H"], ["</think>"], ["H"]]
    reply = thinker.reply_to(["No <think> here"], 6)
    assert (reply.text, reply.reasoning, reply.reasoning_tokens) == ("No <think> here"[: len(reply.text)], "", 0)
    assert len(thinker.sent) == 1


def test_stop_texts_and_formats_hold_for_the_answer_only(open_thinker: Opening) -> None:
    thinker = open_thinker(CASES[1], "budget=40")
    reply = thinker.reply_to(["First.\n\nSecond.", "</think>", "Yes. No."], 12, ("\n\n", "."))
    assert (reply.text, reply.reasoning, reply.finish) == ("Yes", "First.\n\nSecond.", "stop")
    reply = thinker.reply_to(["Hm.", "</think>", "\n\nYes.\n\nNo."], 16, ("\n\n",))
    assert (reply.text, reply.reasoning, reply.finish) == ("Yes.", "Hm.", "stop")
    reply = thinker.reply_to(["B? No.", "</think>", "B"], 12, answer=AnswerFormat(choices=("A", "C")))
    assert reply.text.strip() in ("A", "C")
    assert (reply.reasoning, reply.finish) == ("B? No.", "stop")
    assert [params.structured_outputs is None for _, params in thinker.sent] == [True, False]
    llm = thinker.model.engine.llm
    llm.written = lambda ids, params: type(llm).written(llm, ids, replace(params, stop=[]))
    overlooked = thinker.reply_to(["B? No.", "</think>", "B"], 12, answer=AnswerFormat(choices=("A", "C")))
    assert overlooked == reply, "what was written before the format held is left out"


def test_the_budget_is_extended_once_without_a_request_of_its_own(open_thinker: Opening) -> None:
    thinker = open_thinker(CASES[1], "budget=8")
    reply = thinker.reply_to(["a b c d e f g h i j k l m n o p q r s t u v w"], 4)
    assert (reply.text, reply.finish, reply.reasoning_tokens, reply.answer_tokens) == ("", "length", 16, 0)
    assert reply.reasoning.startswith("a b c d") and len(thinker.sent) == 1
    texts = ["a b c d e f", "</think>", "Yes"]
    assert len(thinker.tokens(*texts[:2])) > 8
    assert thinker.reply_to(texts, 4).text.startswith("Yes")


def test_an_engine_that_writes_nothing_more_ends_the_answer(open_thinker: Opening) -> None:
    thinker = open_thinker(CASES[1], "budget=8")
    thinker.model.engine.llm.written = lambda ids, params: ([], "stop")
    reply = thinker.reply_to([""], 4)
    assert (reply.text, reply.reasoning, reply.finish) == ("", "", "stop")


def test_reasoning_without_room_or_of_a_model_that_never_thinks(
    gpt2: Path, open_model: Any, open_thinker: Opening
) -> None:
    thinker = open_thinker(CASES[1], "budget=95")
    assert thinker.model.context_length == POSITIONS
    with pytest.raises(ModelError, match="--reasoning budget=95 leaves no room for an answer"):
        thinker.reply_to(["Yes"], 4)
    assert open_model("vllm", gpt2, max_model_len=32).context_length == 32
    with pytest.raises(ModelError, match="not known to think before it answers: its chat template is not used"):
        open_model("vllm", gpt2, reasoning="on")


@pytest.mark.parametrize("positions", [POSITIONS, 2 * POSITIONS])
def test_vectors_are_those_of_encoder(workshop: Workshop, positions: int, open_model: Any) -> None:
    """Also if the model has more positions than its tokenizer allows."""
    folder = str(workshop("bert", "Model", max_position_embeddings=positions))
    texts = [Text(line) for line in (*LINES, LONG_TEXT)]
    expected = open_model("encoder", folder, pooling="mean").embed(texts)
    embeddings = open_model("vllm", folder).embed(texts)
    np.testing.assert_allclose(embeddings.values, expected.values, atol=1e-5)
    assert embeddings.truncated == expected.truncated == {len(LINES)}


def test_the_fingerprint_follows_what_changes_answers(gpt2: Path, workshop: Workshop, open_model: Any) -> None:
    plain = open_model("vllm", gpt2).fingerprint()
    assert plain == open_model("vllm", gpt2, gpu_memory_utilization=0.5, batch_size=4, scoring="tree").fingerprint()
    assert plain != open_model("vllm", gpt2, max_model_len=32).fingerprint()
    assert plain != open_model("vllm", workshop("llama", "ForCausalLM")).fingerprint()
    assert plain == open_model("vllm", gpt2, seed=1).fingerprint()
    sampled = [open_model("vllm", gpt2, temperature=1, seed=seed).fingerprint() for seed in (0, 1)]
    assert len({plain, *sampled}) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tensor_parallel_size": 8}, "tensor_parallel_size=8 needs 8 GPUs, but this machine has 2"),
        (
            {"tensor_parallel_size": 2, "pipeline_parallel_size": 2},
            "tensor_parallel_size=2 and pipeline_parallel_size=2 needs 4 GPUs",
        ),
        ({"data_parallel_size": 2}, "vllm serve"),
        ({"tensor_paralel_size": 2}, "did you mean 'tensor_parallel_size'"),
        ({"generation_config": "x"}, "no option 'generation_config'"),
        ({"scoring": "trees"}, "did you mean 'tree'"),
        ({"device": "cuda"}, "leave --device out"),
        ({"top_p": 2, "temperature": 1}, "top_p=2"),
        ({"top_k": 5}, "add temperature"),
        ({"batch_size": "many"}, "not a positive integer"),
    ],
)
def test_a_wrong_option_is_one_line_with_a_cure(
    gpt2: Path, options: dict[str, Any], words: str, open_model: Any
) -> None:
    with pytest.raises(ModelError) as error:
        open_model("vllm", gpt2, **options)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_what_vllm_refuses_is_one_line(gpt2: Path, open_model: Any) -> None:
    model = open_model("vllm", gpt2, max_model_len=10**6)
    with pytest.raises(ModelError, match=r"User-specified max_model_len \(1000000\) is greater .* \(96\)\.$"):
        model.loglikelihood(REQUESTS)


def test_models_of_other_kinds_are_refused(workshop: Workshop, open_model: Any) -> None:
    with pytest.raises(ModelError, match="use --model seq2seq:"):
        open_model("vllm", workshop("t5", "ForConditionalGeneration"))
    with pytest.raises(ModelError, match="there is no folder"):
        open_model("vllm", "no/such/model/anywhere")


def test_no_room_for_an_answer_and_an_empty_option(gpt2: Path, open_model: Any) -> None:
    model = open_model("vllm", gpt2)
    with pytest.raises(TaskError, match="leaves no room"):
        model.generate([Prompt((Message("user", "?"),), max_new_tokens=POSITIONS)])
    empty, full = model.loglikelihood([Continuation("Does it follow?", option) for option in (" ", " Yes")]).values
    assert math.isnan(empty)
    assert full < 0


def test_without_vllm_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, open_model: Any) -> None:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if Path(entry) != IMITATION_FOLDER])
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(FigevalError, match=r"pip install 'figeval\[vllm\]', or .*vllm_server:NAME"):
        open_model("vllm", "anything")


def test_prompts_are_those_of_encoder(gpt2: Path, workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    folder = shutil.copytree(workshop("bert", "Model"), tmp_path / "prompted")
    prompts = {"prompts": {"query": "does it follow: ", "document": "say: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "mean"}))
    texts = [Text(line, role) for line in LINES for role in ("query", "document")]
    raw = open_model(
        "encoder", workshop("bert", "Model"), pooling="mean", query_prompt="does it follow: ", document_prompt="say: "
    )
    model = open_model("vllm", folder)
    np.testing.assert_allclose(model.embed(texts).values, raw.embed(texts).values, atol=1e-5)
    assert "does it follow: " in model.fingerprint()
    assert open_model("vllm", folder, query_prompt="").describe()["prompts"]["query"] == ""
    with pytest.raises(ModelError, match="query_prompt is for encoders"):
        open_model("vllm", gpt2, query_prompt="a: ")
    with pytest.raises(ModelError, match="instruction is for encoders"):
        open_model("vllm", gpt2, instruction="a")
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "mean", "include_prompt": False}))
    with pytest.raises(ModelError, match="vLLM cannot leave them out; use --model encoder:"):
        open_model("vllm", folder).embed(texts)
