"""The packed engine against rows of a plain forward pass, on every architecture; and its trees and plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from figeval.builtin.plugins.causal.engine import bodies, packed, self_test, views
from figeval.builtin.plugins.causal.engine.packed import PackedEngine
from figeval.builtin.plugins.causal.engine.prefix_tree import TokenRequest, build_tree
from figeval.builtin.plugins.causal.engine.reading_plan import Prefix, RowShape, plan_of
from figeval.builtin.plugins.causal.engine.self_test import settle
from figeval.builtin.plugins.torch_models.batching import TokenBudget
from tests.plugins.architectures import CONFIGS, PACKED_CONFIGS, PLAIN_CONFIGS, POSITIONS, SHARING, WORDS, build

Answer = tuple[float, bool]


def engine_for(model: Any, rows: int | None = None) -> PackedEngine:
    return settle(PackedEngine(model, torch.device("cpu"), TokenBudget.on("cpu", rows)))


def naive(model: Any, request: TokenRequest) -> Answer:
    """One text, one forward pass."""
    with torch.inference_mode():
        table = model(input_ids=torch.tensor([request.ids[:-1]])).logits[0].double().log_softmax(-1)
    rows, words = table[-request.predicted :], torch.tensor(request.ids[-request.predicted :])
    return float(rows.gather(1, words[:, None]).sum()), bool((rows.argmax(-1) == words).all())


def some_requests(shots: int = 40, stories: int = 3, options: int = 7) -> list[TokenRequest]:
    """Solved examples that all share, stories of several lengths, options that begin alike; and one of a token."""
    generator = np.random.default_rng(1)

    def words(n: int) -> list[int]:
        return list(generator.integers(3, WORDS, n).tolist())

    begin = words(shots)
    contexts = [begin + words(5 + 9 * index) for index in range(stories)]
    first = words(2)
    continuations = [[*first, *words(3)], first[:1], *(words(1 + index) for index in range(options - 2))]
    return [TokenRequest((*context, *option), len(option)) for context in contexts for option in continuations]


def agrees(engine: PackedEngine, requests: list[TokenRequest], tolerance: float = 1e-4) -> None:
    for answer, request in zip(engine.score(requests), requests, strict=True):
        expected = naive(engine.model, request)
        assert answer[0] == pytest.approx(expected[0], abs=tolerance)
        assert answer[1] == expected[1]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_architecture_scores_as_plain_rows_do(name: str) -> None:
    engine = engine_for(build(name))
    assert 1_000 < bodies.bytes_per_token(engine.model) < 10_000
    requests = some_requests()
    if name in PACKED_CONFIGS:
        require_last_part_where_predicted(name, engine, requests)
        engine.forget()
    greedy = [TokenRequest((*request.ids[:-1], likeliest(engine.model, request)), 1) for request in requests[:2]]
    agrees(engine, requests + greedy)
    assert any(answer[1] for answer in engine.score(greedy))
    expected = "packed" if name in PACKED_CONFIGS else "share their beginning" if name in SHARING else "plain rows"
    described = engine.describe()
    assert expected in described["scoring"]
    assert described["head"] == "where predicted"
    assert ("fell_back_because" in described) == (name not in PACKED_CONFIGS)
    assert (described["tokens"]["read"] < described["tokens"]["one_row_per_continuation"] / 2) == (
        name not in PLAIN_CONFIGS
    )


def require_last_part_where_predicted(name: str, engine: PackedEngine, requests: list[TokenRequest]) -> None:
    """The last feed-forward part is run on the states that predict something, and only on those."""
    # OPT's two halves are not one module; GPT-OSS' returns more than states.
    assert (engine.last is None) == (name in {"OPT", "GptOss"})
    if engine.last is None:
        return
    seen: list[int] = []
    hook = engine.last.register_forward_hook(lambda _module, inputs, _output: seen.append(inputs[0].shape[:-1].numel()))
    read = engine.tokens.read
    engine.score(requests)
    hook.remove()
    assert min(seen) <= sum(request.predicted for request in requests) < engine.tokens.read - read


def likeliest(model: Any, request: TokenRequest) -> int:
    with torch.inference_mode():
        return int(model(input_ids=torch.tensor([request.ids[:-1]])).logits[0, -1].argmax())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_either_attention(attention: str) -> None:
    agrees(engine_for(build("Llama", attn_implementation=attention)), some_requests())


@pytest.mark.parametrize("rows", [1, 2, None])
def test_any_batch(rows: int | None) -> None:
    agrees(engine_for(build("Gemma2"), rows), some_requests())


def test_the_trunk_is_read_once_for_many_calls() -> None:
    engine = engine_for(build("GPT2"))
    requests = some_requests(shots=60)
    expected = engine.score(requests)
    read = engine.tokens.read
    assert read == 60 + sum(5 + 9 * index + 14 for index in range(3))
    calls = [engine.score(requests[start : start + 7]) for start in range(0, len(requests), 7)]
    assert [answer[0] for call in calls for answer in call] == pytest.approx(
        [answer[0] for answer in expected], abs=1e-5
    )
    assert engine.tokens.read - read == read  # the first call could not know that others follow
    engine.score(requests[:7])
    assert engine.tokens.read - 2 * read == 5 + 14
    agrees(engine, [TokenRequest(request.ids[10:], request.predicted) for request in requests])  # another shared prefix


def test_calls_that_begin_differently_share_nothing() -> None:
    engine = engine_for(build("GPT2"))
    requests = some_requests(shots=40)
    agrees(engine, requests)
    other_requests = [TokenRequest((7, *request.ids), request.predicted) for request in requests]
    agrees(engine, requests + other_requests)
    agrees(engine, requests + other_requests)


def test_a_text_that_ends_within_the_trunk_is_scored_nevertheless() -> None:
    requests = some_requests(shots=60)
    engine = engine_for(build("Llama"))
    engine.score(requests)
    begin = requests[0].ids
    agrees(engine, [*requests, TokenRequest(begin[:30], 4), TokenRequest(begin[:61], 1)])


def test_one_token_of_context_is_enough() -> None:
    agrees(
        engine_for(build("GPT2")),
        [TokenRequest((5, 6), 1), TokenRequest((5, 7), 1), TokenRequest((5, 7, 8), 2), TokenRequest((5, 6), 1)],
    )


def test_nothing_asked_nothing_answered() -> None:
    assert engine_for(build("GPT2")).score([]) == []


def test_scores_of_the_vocabulary_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model, requests = build("Gemma2"), some_requests()
    expected = engine_for(model).score(requests)
    monkeypatch.setitem(packed.LOGIT_BYTES, "cpu", 4 * WORDS * 3)
    seen = []
    model.lm_head.register_forward_hook(lambda _module, inputs, _output: seen.append(inputs[0].shape[-2]))
    parts = engine_for(model).score(requests)
    assert [answer[0] for answer in parts] == pytest.approx([answer[0] for answer in expected], abs=1e-5)
    assert max(seen[-10:]) <= 3


def test_texts_beyond_a_window_that_was_not_tried_go_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window too long for the sample, in a model of which no small copy can be made."""
    monkeypatch.setattr(views, "MAX_TESTED_TOKENS", 20)
    monkeypatch.setattr(self_test, "MAX_TESTED_TOKENS", 20)
    monkeypatch.setattr(self_test, "small_copy", lambda _model, _device: None)
    engine = engine_for(build("Mistral", sliding_window=50))
    assert engine.strategy.reach == 50
    agrees(engine, some_requests(shots=44))
    short, long = some_requests(shots=10), some_requests(shots=60)
    engine.tokens.read = engine.tokens.plain = 0
    agrees(engine, long)
    far = engine.tokens.read
    assert far > engine.tokens.plain / 2  # texts that are the beginning of another are not read by themselves
    agrees(engine, short)
    assert engine.tokens.read - far < far / 5


def test_a_copy_with_short_windows_answers_for_long_ones() -> None:
    engine = engine_for(build("Mistral", sliding_window=1_500))
    assert engine.strategy.reach is None
    assert engine.strategy.build_mask is not None
    agrees(engine, some_requests(shots=60))


@pytest.mark.slow
def test_a_head_that_needs_all_states_is_run_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("Llama")
    original = model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        output.logits = output.logits + output.logits.shape[1]  # differs for a chosen few
        output.logits[..., 0] += output.logits.shape[1] / 10
        return output

    monkeypatch.setattr(model, "forward", forward)
    assert engine_for(model).describe()["head"] == "everywhere"


def test_a_model_that_is_no_number_gives_scores_that_are_none() -> None:
    model = build("GPT2")
    with torch.no_grad():
        model.transformer.ln_f.weight.fill_(float("nan"))
    engine = engine_for(model)
    assert all(np.isnan(value) for value, _ in engine.score(some_requests()))


def test_memory_that_runs_out_halves_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_for(build("Llama"))
    requests, original, failed = some_requests(stories=6, options=20), engine.body.forward, []
    expected = engine.score(requests)

    def forward(*args: Any, **kwargs: Any) -> Any:
        if len(kwargs["input_ids"]) > 1:
            failed.append(True)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(*args, **kwargs)

    monkeypatch.setattr(engine.body, "forward", forward)
    assert [logprob for logprob, _ in engine.score(requests)] == pytest.approx(
        [logprob for logprob, _ in expected], abs=1e-5
    )
    assert failed
    assert engine.budget.halved >= 1


def test_an_activation_in_one_pass_is_the_same() -> None:
    model = build("GPT2")
    requests = some_requests()
    expected = [naive(model, request) for request in requests]
    engine = engine_for(model)
    assert isinstance(model.transformer.h[0].mlp.act, torch.nn.GELU)
    assert [logprob for logprob, _ in engine.score(requests)] == pytest.approx(
        [logprob for logprob, _ in expected], abs=1e-4
    )


def test_little_free_memory_makes_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "free_memory", lambda _device: 4 * 100 * (8 * 32 + 4 * 64) * 4)
    engine = engine_for(build("Llama"))
    assert engine.budget.tokens == 100
    agrees(engine, some_requests())
    monkeypatch.undo()
    assert engine_for(build("Llama")).budget.tokens == 512


def test_windows_are_found_by_name() -> None:
    assert views.windows(build("Mistral").config) == [8]
    assert views.windows(build("Llama").config) == []
    assert len(self_test.sample_for(build("Mistral").config, POSITIONS)[0].ids) > 24


# ---- trees and plans: what is read, what may be seen, what is predicted ----------------------------------------------

tokens = st.integers(0, 3)
requests = st.lists(
    st.builds(
        lambda context, continuation: TokenRequest((*context, *continuation), len(continuation)),
        st.lists(tokens, min_size=1, max_size=12),
        st.lists(tokens, min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=25,
)
shapes = st.sampled_from(
    [
        RowShape(),
        RowShape(branches=3, width=6),
        RowShape(trees=False),
        RowShape(trees=False, prefixes=False),
        RowShape(prefixes=False),
    ]
)


def texts_of(prefix: Prefix, before: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], bool]]:
    """Per node of every row and prefix: the nodes that it sees, itself the last, and whether it is to predict."""
    path = (*before, *prefix.nodes.tolist())
    beginnings = [(path[: len(before) + i + 1], bool(fresh)) for i, fresh in enumerate(prefix.fresh)]
    for row in prefix.rows:
        for i, node in enumerate(row.nodes):
            seen = [int(other) for j, other in enumerate(row.nodes[:i]) if i < row.end[j]]
            beginnings.append(((*path, *seen, int(node)), bool(row.fresh[i])))
    for further in prefix.prefixes:
        beginnings += texts_of(further, path)
    return beginnings


@given(requests)
def test_a_forest_holds_each_beginning_once(requests: list[TokenRequest]) -> None:
    tree = build_tree(requests)
    beginnings = {request.ids[:length] for request in requests for length in range(1, len(request.ids))}
    assert len(tree.tokens) == len(beginnings)
    assert tree.depth.max() == max(len(request.ids) for request in requests) - 2


@given(requests)
def test_every_request_finds_its_predictions(requests: list[TokenRequest]) -> None:
    tree = build_tree(requests)
    for request, answer in zip(requests, tree.answers, strict=True):
        nodes, words = tree.predictions[answer].T
        assert tuple(words) == request.ids[-request.predicted :]
        begin = len(request.ids) - request.predicted - 1
        assert tree.depth[nodes].tolist() == list(range(begin, len(request.ids) - 1))
        assert tuple(tree.tokens[nodes]) == request.ids[begin:-1]


@given(requests, shapes)
def test_in_every_plan_a_token_sees_its_text_and_nothing_else(requests: list[TokenRequest], shape: RowShape) -> None:
    tree = build_tree(requests)
    plan = plan_of(tree, shape)
    predicted = []
    for seen, fresh in texts_of(plan):
        node = seen[-1]
        ancestors = [other for other in range(node + 1) if other <= node < tree.end[other]]
        assert list(seen) == ancestors
        assert tree.depth[node] == len(ancestors) - 1
        predicted += [node] * fresh
    assert sorted(predicted) == list(range(len(tree.tokens)))  # each exactly once


@given(requests)
def test_unbranched_rows_are_unbranched(requests: list[TokenRequest]) -> None:
    plan = plan_of(build_tree(requests), RowShape(trees=False, prefixes=False))
    assert not plan.prefixes
    assert all((row.end == len(row)).all() for row in plan.rows)


def test_what_a_plan_costs() -> None:
    """Solved examples of 300 tokens, 20 stories of 40 tokens, 30 proverbs of 7: each is read once."""
    generator = np.random.default_rng(0)
    shots = generator.integers(10, 1000, 300).tolist()
    proverbs = [[word, *generator.integers(10, 1000, 6).tolist()] for word in range(1000, 1030)]
    stories = [[story, *generator.integers(10, 1000, 39).tolist()] for story in range(2000, 2020)]
    requests = [TokenRequest((*shots, *story, *proverb), 7) for story in stories for proverb in proverbs]
    tree = build_tree(requests)
    plan = plan_of(tree, RowShape())
    assert plan.read == len(tree.tokens) == 300 + 20 * (40 + 30 * 6)
    (shared_prefix,) = plan.prefixes
    assert len(shared_prefix.nodes) == 300
    assert max(map(len, shared_prefix.rows)) <= 256 + 40
    on_gpu = plan_of(tree, RowShape.on("cuda"))
    assert on_gpu.read == plan.read
    assert len(on_gpu.prefixes[0].rows) < len(shared_prefix.rows) / 3
    plain = plan_of(tree, RowShape(trees=False, prefixes=False))
    assert plain.read == sum(len(request.ids) - 1 for request in requests)


def test_texts_that_continue_one_another_may_be_thousands() -> None:
    tree = build_tree([TokenRequest((*range(length), 0, 0), 1) for length in range(1, 1100)])
    for shape in (RowShape(), RowShape(trees=False)):
        assert plan_of(tree, shape).read >= len(tree.tokens)
