"""Heads that were trained, if only on a handful of narratives: a checkpoint that a training loop saved answers the
tasks that it was trained on. What such a loop has to write, and which token is which, is the same for large models.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from figeval import Harness, JointExample, RunConfig, SpanExample
from tests.finished_runs import execute
from tests.plugins.headed import FILE, span_branch
from tests.plugins.tiny import BERT, make_tokenizer, word_pieces

WIDTH, FIRST_TOKEN = 48, 10  # FIRST examples are learnt by heart, and asked for
MAX_LOSS, STEPS = 0.01, 2000  # from that loss on every answer is right; a few hundred steps, by seed and machine


@pytest.fixture(scope="module")
def examples() -> list[JointExample]:
    harness = Harness()
    (task,) = harness.catalogue.expand(["mini_joint"])
    return list(harness.examples(task))[:FIRST_TOKEN]  # type: ignore[arg-type]


def tokenizer_of(texts: Sequence[str]) -> Any:
    tokenizer = make_tokenizer(partial(word_pieces, texts=texts, size=2000), BERT)
    tokenizer.model_max_length = 256
    return tokenizer


def config_of(tokenizer: Any) -> Any:
    from transformers import BertConfig

    shape = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
    torch.manual_seed(0)
    return BertConfig(vocab_size=len(tokenizer), max_position_embeddings=256, hidden_dropout_prob=0.0,
                      attention_probs_dropout_prob=0.0, **shape)  # fmt: skip


def targets(encoded: Any, parts: Sequence[SpanExample], side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Per row the tokens with which the gold span begins and ends."""
    target_rows = []
    for row, part in enumerate(parts):
        assert part.gold is not None
        sides = encoded.sequence_ids(row)
        inside = [
            index
            for index, (start, end) in enumerate(encoded["offset_mapping"][row].tolist())
            if sides[index] == side and start < part.gold.end and end > part.gold.start
        ]
        target_rows.append((inside[0], inside[-1]))
    starts, ends = zip(*target_rows, strict=True)
    return torch.tensor(starts), torch.tensor(ends)


def learn(parameters: Iterable[torch.Tensor], loss: Callable[[], tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Take steps until the examples are known by heart, however many that takes with the roundings of a machine.

    Args:
        parameters: What is trained.
        loss: Gives what each step lessens, and how much of it can be learnt.
    """
    weights = list(parameters)
    optimizer = torch.optim.AdamW(weights, lr=3e-3)
    rise = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=30)
    for _ in range(STEPS):
        complete, learnable = loss()
        if learnable.item() < MAX_LOSS:
            return
        optimizer.zero_grad()
        complete.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        rise.step()
    pytest.fail(f"not learnt in {STEPS} steps: {learnable.item():.3f}")


def numbers(model: Path, task: str, folder: Path) -> dict[str, float | None]:
    config = RunConfig(tasks=(task,), model=str(model), output_path=folder, device="cpu", limit=FIRST_TOKEN)
    (task_record,) = execute(config).tasks
    assert task_record.error is None
    return {score.metric: score.value for score in task_record.scores}


@pytest.mark.slow
def test_a_question_answering_head_finds_what_it_was_trained_on(examples: list[JointExample], tmp_path: Path) -> None:
    from transformers import BertForQuestionAnswering

    parts = [part for example in examples for part in example.parts]
    tokenizer = tokenizer_of([part.text for part in parts] + [part.known for part in parts])
    questions = [f"{part.known}{tokenizer.sep_token}{part.given}" for part in parts]
    encoded = tokenizer(
        questions, [part.text for part in parts], padding=True, return_tensors="pt", return_offsets_mapping=True
    )
    starts, ends = targets(encoded, parts, side=1)
    inputs = {name: encoded[name] for name in ("input_ids", "token_type_ids", "attention_mask")}
    model = BertForQuestionAnswering(config_of(tokenizer))

    def loss() -> tuple[torch.Tensor, torch.Tensor]:
        spans: torch.Tensor = model(**inputs, start_positions=starts, end_positions=ends).loss
        return spans, spans

    learn(model.parameters(), loss)
    model.save_pretrained(tmp_path / "head")
    tokenizer.save_pretrained(tmp_path / "head")
    scores = numbers(tmp_path / "head", "mini_alignment", tmp_path / "run")
    assert (scores["span_f1"], scores["exact_match"]) == (1.0, 1.0), scores


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["tanh", "none"])
def test_a_joint_model_ranks_and_finds_what_it_was_trained_on(
    activation: str, examples: list[JointExample], tmp_path: Path
) -> None:
    """Without an activation, as in the authors' code, the given span makes no difference: that was not to be learnt."""
    folder = trained_joint(examples, tmp_path / "joint", activation)
    at_once = numbers(folder, "mini_joint", tmp_path / "run")
    assert at_once["acc"] == 1.0, at_once
    predictions = tmp_path / "run" / "predictions" / "mini_joint.jsonl"
    rows = [json.loads(line) for line in predictions.read_text("utf-8").splitlines()]
    alike = [len({tuple(part["pred"]) for part in row["parts"]}) == 1 for row in rows if len(row["parts"]) > 1]
    if activation == "none":
        assert all(alike)
        assert (at_once["span_f1"] or 0) < 0.8, at_once
    else:
        assert sum(alike) < len(alike) / 4
        assert at_once["span_f1"] == 1.0, at_once


def branch_logits(branch: Any, states: torch.Tensor, vectors: torch.Tensor, activation: str) -> torch.Tensor:
    """The starts and ends that a span branch gives the tokens of texts, shape (rows, length, 2)."""
    hidden = branch["joint"](torch.cat((states, vectors.unsqueeze(1).expand_as(states)), dim=-1))
    hidden = hidden.tanh() if activation == "tanh" else hidden
    return torch.cat((branch["start"](hidden), branch["end"](hidden)), dim=-1)


def trained_joint(examples: list[JointExample], folder: Path, activation: str) -> Path:
    """A checkpoint of the encoder, its branch and what it declares, after some steps on all three losses."""
    from safetensors.torch import save_file
    from transformers import BertModel

    parts = [part for example in examples for part in example.parts]
    owners = torch.tensor([index for index, example in enumerate(examples) for _ in example.parts])
    tokenizer = tokenizer_of([example.query for example in examples] + list(examples[0].candidates))

    def tokens(texts: Sequence[str], **options: Any) -> Any:
        return tokenizer(list(texts), padding=True, return_tensors="pt", **options)

    narratives = tokens([example.query for example in examples])
    proverbs, quotations = tokens(examples[0].candidates), tokens([part.given for part in parts])
    starts, ends = targets(tokens([part.text for part in parts], return_offsets_mapping=True), parts, side=0)
    hidden = narratives["attention_mask"][owners] == 0
    model, branch = BertModel(config_of(tokenizer), add_pooling_layer=False), span_branch(WIDTH)
    gold = torch.tensor([min(example.relevant) for example in examples])

    def loss() -> tuple[torch.Tensor, torch.Tensor]:
        states = model(**narratives).last_hidden_state
        ranked = states[:, 0] @ model(**proverbs).last_hidden_state[:, 0].T
        vectors = model(**quotations).last_hidden_state[:, 0]
        logits = branch_logits(branch, states[owners], vectors, activation).masked_fill(hidden.unsqueeze(-1), -100.0)
        spans = functional.cross_entropy(logits[..., 0], starts) + functional.cross_entropy(logits[..., 1], ends)
        ranking = functional.cross_entropy(ranked, gold)
        return ranking + spans, ranking if activation == "none" else ranking + spans

    learn([*model.parameters(), *branch.parameters()], loss)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file(dict(branch.state_dict()), folder / FILE)
    declared = {"kind": "joint", "pooling": "cls", "similarity": "dot", "activation": activation}
    (folder / "figeval.json").write_text(json.dumps(declared))
    return folder
