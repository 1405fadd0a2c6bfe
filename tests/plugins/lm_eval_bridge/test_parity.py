"""The same number in both harnesses: same model, same seed, same limit, example by example."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.model import LM

from tests.plugins.lm_eval_bridge.both import assert_same, in_figeval, in_lm_eval, stubs
from tests.plugins.lm_eval_bridge.server import serve
from tests.plugins.servers import talkative
from tests.plugins.tiny import Workshop
from tests.runs.conftest import write_task

LONG_CONTEXT = {"n_positions": 512}
MODELS = {
    "gpt2": ("gpt2", "LMHeadModel", LONG_CONTEXT),
    "llama": ("llama", "ForCausalLM", {"max_position_embeddings": 512}),
    "t5": ("t5", "ForConditionalGeneration", {}),
}
TASKS = ("mini_proverbs", "mini_fables", "mini_pairs", "mini_retrieval")


def make_checkpoint(workshop: Workshop, name: str) -> str:
    kind, head, config = MODELS[name]
    return str(workshop(kind, head, **config))


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", MODELS)
def test_log_likelihoods_predictions_and_metrics(name: str, task: str, workshop: Workshop, tmp_path: Path) -> None:
    folder = make_checkpoint(workshop, name)
    limit = 6 if task == "mini_retrieval" else 14
    options = {"add_bos_token": False} if name == "llama" else {}  # its tokenizer puts a token after every text
    model_arguments = {"pretrained": folder, **options}
    in_their_run, output = in_lm_eval(model_arguments, task, stubs(), limit=limit, batch_size=16, device="cpu")
    bridged = in_figeval(
        "lm_eval:hf", task, tmp_path / "bridged", model_args=model_arguments, limit=limit, batch_size=16
    )
    assert_same(bridged, in_their_run)
    assert len(in_their_run.metrics) == limit
    native = in_figeval("hf:" + folder, task, tmp_path / "native", limit=limit, model_args=options)
    assert_same(native, in_their_run)
    means = [
        name for name in in_their_run.numbers if f"{name}_stderr" in in_their_run.numbers and name not in {"macro_f1"}
    ]
    assert output["n-samples"]["figeval_" + task] == {
        "original": 20 if task == "mini_fables" else 60,
        "effective": limit,
    }
    assert "acc" in means


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """A task with a train split, so that there is something to show."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    write_task(folder, "shown", 24)
    return folder


@pytest.mark.parametrize("seed", [0, pytest.param(7, marks=pytest.mark.slow)])
def test_solved_examples_are_the_same_ones(seed: int, trained: Path, workshop: Workshop, tmp_path: Path) -> None:
    folder = make_checkpoint(workshop, "gpt2")
    settings: dict[str, Any] = {"num_fewshot": 3, "seed": seed, "limit": 9}
    in_their_run, output = in_lm_eval({"pretrained": folder}, "shown", stubs(trained), **settings, device="cpu")
    in_our_run = in_figeval(
        "lm_eval:hf",
        "shown",
        tmp_path / "here",
        model_args={"pretrained": folder},
        include_path=(trained,),
        device="cpu",
        **settings,
    )
    assert_same(in_our_run, in_their_run)
    context = output["samples"]["figeval_shown"][0]["arguments"][0][0]
    assert context.count("Question:") == 4
    assert output["n-shot"]["figeval_shown"] == 3


def test_prompt_fields_are_shown_there_too(trained: Path, workshop: Workshop, tmp_path: Path) -> None:
    """In the question, in its options and in solved examples; what is written to the samples is what was shown."""
    with (trained / "shown.task.yaml").open("a") as file:
        file.write('prompt_fields: {query: row.q | upper, options: row.o | map("upper") | list}\n')
    folder = make_checkpoint(workshop, "gpt2")
    settings: dict[str, Any] = {"num_fewshot": 2, "limit": 3}
    in_their_run, output = in_lm_eval({"pretrained": folder}, "shown", stubs(trained), **settings, device="cpu")
    model = {"model_args": {"pretrained": folder}, "include_path": (trained,), "device": "cpu"}
    assert_same(in_figeval("lm_eval:hf", "shown", tmp_path / "here", **model, **settings), in_their_run)
    first = output["samples"]["figeval_shown"][0]
    context, continuation = first["arguments"][0]
    assert "WORD0 HERE" in context and continuation == " WORD0"
    assert "word" not in context
    assert first["doc"]["query"] == "WORD0 HERE"
    assert output["configs"]["figeval_shown"]["figeval"]["prompt_fields"] == ["options", "query"]


@pytest.mark.slow
def test_another_seed_shows_others(trained: Path, workshop: Workshop) -> None:
    folder = make_checkpoint(workshop, "gpt2")
    contexts = []
    for seed in (0, 7):
        _, output = in_lm_eval({"pretrained": folder}, "shown", stubs(trained), num_fewshot=2, seed=seed, limit=1)
        contexts.append(output["samples"]["figeval_shown"][0]["arguments"][0][0])
    assert contexts[0] != contexts[1]


@pytest.mark.slow
def test_a_system_message(trained: Path, workshop: Workshop, tmp_path: Path) -> None:
    folder = make_checkpoint(workshop, "gpt2")
    settings: dict[str, Any] = {"system_instruction": "You know proverbs.", "limit": 5}
    in_their_run, _ = in_lm_eval({"pretrained": folder}, "shown", stubs(trained), **settings)
    model = {"model_args": {"pretrained": folder}, "include_path": (trained,)}
    assert_same(in_figeval("lm_eval:hf", "shown", tmp_path / "here", **model, **settings), in_their_run)
    without, _ = in_lm_eval({"pretrained": folder}, "shown", stubs(trained), limit=5)
    assert without.scores != in_their_run.scores


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stub", "task", "route"),
    [
        ("mini_proverbs_by_letter", "mini_proverbs", {"choice": "by_letter"}),
        ("mini_pairs_by_label_word", "mini_pairs", {"pairs": "by_label_word"}),
        ("mini_fables_by_letter_likelihood", "mini_fables", {"choice": "by_letter_likelihood"}),
    ],
)
def test_other_routes(stub: str, task: str, route: dict[str, str], workshop: Workshop, tmp_path: Path) -> None:
    folder = make_checkpoint(workshop, "gpt2")
    in_their_run, output = in_lm_eval({"pretrained": folder}, stub, stubs(), limit=5, device="cpu")
    in_our_run = in_figeval(
        "lm_eval:hf", task, tmp_path / "here", model_args={"pretrained": folder}, limit=5, routes=route, device="cpu"
    )
    assert in_our_run.predictions == in_their_run.predictions
    assert in_our_run.metrics == [
        {k: v for k, v in metrics.items() if k != "acc_strict"} for metrics in in_their_run.metrics
    ]
    assert output["configs"]["figeval_" + stub]["figeval"]["route"] == next(iter(route.values()))


@pytest.fixture
def chatty(workshop: Workshop, tmp_path: Path) -> str:
    """A model with a chat template."""
    return str(talkative(Path(shutil.copytree(make_checkpoint(workshop, "gpt2"), tmp_path / "chat"))))


@pytest.mark.parametrize(
    ("stub", "route"),
    [("shown", "by_loglikelihood"), pytest.param("shown_by_letter", "by_letter", marks=pytest.mark.slow)],
)
def test_a_chat_template(stub: str, route: str, chatty: str, trained: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "num_fewshot": 2,
        "system_instruction": "You know proverbs.",
        "apply_chat_template": True,
        "limit": 6,
    }
    written: dict[str, Any] = {"gen_kwargs": {"max_gen_toks": 6}} if route == "by_letter" else {}
    in_their_run, output = in_lm_eval({"pretrained": chatty}, stub, stubs(trained), **settings, **written)
    settings |= {"max_new_tokens": 6} if written else {}
    model = {"model_args": {"pretrained": chatty}, "include_path": (trained,), "routes": {"choice": route}}
    in_our_run = in_figeval("lm_eval:hf", "shown", tmp_path / "here", **model, **settings)
    assert in_our_run.predictions == in_their_run.predictions
    assert in_our_run.metrics == in_their_run.metrics
    for ours, their_score in zip(in_our_run.scores, in_their_run.scores, strict=True):
        assert ours == pytest.approx(their_score, rel=1e-4)
    sample = output["samples"]["figeval_" + stub][0]["arguments"][0]
    assert sample[0].startswith("system: You know proverbs.\nuser: Question:")
    assert sample[0].count("assistant:") == 3
    assert sample[0].endswith("assistant:")


def test_solved_examples_in_one_turn(chatty: str, trained: Path) -> None:
    """lm-eval's --fewshot_as_multiturn false."""
    settings: dict[str, Any] = {
        "num_fewshot": 2,
        "apply_chat_template": True,
        "fewshot_as_multiturn": False,
        "limit": 1,
    }
    _, output = in_lm_eval({"pretrained": chatty}, "shown", stubs(trained), **settings)
    context = output["samples"]["figeval_shown"][0]["arguments"][0][0]
    assert context.count("user:") == context.count("assistant:") == 1
    assert context.count("Question:") == 3


def test_a_chat_model_behind_an_api(trained: Path, workshop: Workshop, tmp_path: Path) -> None:
    from lm_eval.models.openai_completions import LocalChatCompletion

    options = {"model": "tiny", "num_concurrent": 2}
    with serve(Path(make_checkpoint(workshop, "gpt2"))) as served:
        options["base_url"] = f"{served.address}/chat/completions"
        lm = LocalChatCompletion(**options)
        in_their_run, _ = in_lm_eval(
            lm, "shown_by_letter", stubs(trained), apply_chat_template=True, num_fewshot=1, limit=7
        )
        conversations = [sent["messages"] for sent in served.requests]
        served.requests.clear()
        model = {"model_args": options, "include_path": (trained,)}
        in_our_run = in_figeval(
            "lm_eval:local-chat-completions", "shown", tmp_path / "here", limit=7, num_fewshot=1, **model
        )
        assert_same(in_our_run, in_their_run)
        assert sorted(map(str, conversations)) == sorted(str(sent["messages"]) for sent in served.requests)
    assert in_our_run.numbers["parse_rate"] == 1


class Wordy(LM):
    """Writes as many words as it may."""

    tokenizer: Any = object()

    def tok_encode(self, text: str, **_options: Any) -> list[str]:
        return text.split()

    def loglikelihood(self, requests: Any) -> Any:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood

    def generate_until(self, requests: Any) -> list[str]:
        words = ["All", "in", "all", "option", "B", "has"]
        return [" ".join(words[: request.args[1]["max_gen_toks"]]) for request in requests]


def test_an_answer_that_was_cut_off(trained: Path) -> None:
    """A mention is no answer where the rest is missing, and lm-eval does not say whether it is."""
    output, _ = in_lm_eval(Wordy(), "shown_by_letter", stubs(trained), limit=2)
    cut, _ = in_lm_eval(Wordy(), "shown_by_letter", stubs(trained), limit=2, gen_kwargs={"max_gen_toks": 6})
    assert (output.predictions, output.numbers["parse_rate"]) == ([1, 1], 1)
    assert (cut.predictions, cut.numbers["parse_rate"]) == ([None, None], 0)
    assert "acc" not in cut.numbers, "not known is not zero"


def test_our_own_engine_reads_its_answers_in_the_same_way(workshop: Workshop, tmp_path: Path) -> None:
    folder = make_checkpoint(workshop, "gpt2")
    in_their_run, _ = in_lm_eval({"pretrained": folder}, "mini_pairs_by_label_word", stubs(), limit=30, batch_size=8)
    settings: dict[str, Any] = {"limit": 30, "routes": {"pairs": "by_label_word"}}
    in_our_run = in_figeval("hf", "mini_pairs", tmp_path / "here", model_args={"pretrained": folder}, **settings)
    assert in_our_run.predictions == in_their_run.predictions
    rows = [json.loads(line) for line in (tmp_path / "here/predictions/mini_pairs.jsonl").read_text().splitlines()]
    assert "length" in {row["finish"] for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", ["epic_mcq", "epic_retrieval_unseen", "impli_idioms_gold_ent", "impli_metaphors_silver_ent"]
)
def test_real_data(task: str, real_data: str, workshop: Workshop, tmp_path: Path) -> None:
    folder = make_checkpoint(workshop, "gpt2")
    limit = 2 if "retrieval" in task else 20
    in_their_run, _ = in_lm_eval({"pretrained": folder}, task, stubs(), limit=limit, batch_size=16, device="cpu")
    model = {"model_args": {"pretrained": folder}, "batch_size": 16, "device": "cpu"}
    assert_same(in_figeval("lm_eval:hf", task, tmp_path / "here", limit=limit, **model), in_their_run)
    assert not any(map(math.isnan, (value for value in in_their_run.numbers.values() if isinstance(value, float))))
