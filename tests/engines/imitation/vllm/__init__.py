"""An imitation of vLLM's offline engine by transformers, for tests on machines without vLLM.

It has what `plugins/vllm` uses, with the traits that matter: answers come back out of order and a few at a time; a
prefix cache of whole blocks, whose tokens have no log-probabilities; `prompt_logprobs` ignores that cache unless told
otherwise; at most 128 `logprob_token_ids`; prompts that leave no room for a token are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

__version__ = "0.32.0+imitation"
BLOCK = 4  # tokens of a block of the prefix cache
STEP = 3  # requests that are finished in a step


@dataclass
class SamplingParams:
    temperature: float = 1.0
    max_tokens: int = 16
    stop: list[str] = field(default_factory=list)
    repetition_penalty: float = 1.0
    skip_special_tokens: bool = True
    detokenize: bool = True
    prompt_logprobs: int | None = None
    skip_reading_prefix_cache: bool | None = None
    logprob_token_ids: list[int] | None = None
    structured_outputs: Any = None
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        assert self.temperature == 0.0 or 0 <= self.seed < 2**63
        if len(self.logprob_token_ids or ()) > 128:
            raise ValueError("Too many logprob_token_ids")
        if self.skip_reading_prefix_cache is None:
            self.skip_reading_prefix_cache = self.prompt_logprobs is not None


@dataclass
class PoolingParams:
    task: str = ""


@dataclass
class EngineArgs:
    model: str = ""
    runner: str = "auto"
    dtype: str = "auto"
    trust_remote_code: bool = False
    generation_config: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int = 256
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    gpu_memory_utilization: float = 0.9
    quantization: str | None = None
    enforce_eager: bool = False


@dataclass
class Logprob:
    logprob: float


class LLM:
    """The engine; `count` is how many requests all engines have been sent."""

    count = 0

    def __init__(self, model: str, use_tqdm_on_load: bool = True, **options: Any) -> None:
        from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

        args = EngineArgs(model, **options)
        auto = AutoModel if args.runner == "pooling" else AutoModelForCausalLM
        self.network = auto.from_pretrained(model).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        max_tokens = int(self.network.config.max_position_embeddings)
        if args.max_model_len and args.max_model_len > max_tokens:
            raise ValueError(
                "1 validation error for ModelConfig\n  Value error, User-specified max_model_len "
                f"({args.max_model_len}) is greater than the derived max_model_len ({max_tokens}). "
                "[type=value_error, …]"
            )
        self.model_config = SimpleNamespace(
            max_model_len=args.max_model_len or max_tokens,
            pooler_config=None,
            try_get_generation_config=lambda: self.network.generation_config.to_diff_dict(),
        )
        self.queue: list[tuple[str, list[int], Any]] = []
        self.blocks: set[tuple[int, ...]] = set()
        self.llm_engine = self
        self.engine_core = SimpleNamespace(shutdown=lambda: None)

    def reset_prefix_cache(self) -> None:
        self.blocks.clear()

    def add_request(self, request_id: str, prompt: dict[str, list[int]], params: Any) -> None:
        ids = prompt["prompt_token_ids"]
        if len(ids) > self.model_config.max_model_len - isinstance(params, SamplingParams):
            raise ValueError(f"a prompt of {len(ids)} tokens is too long")
        assert request_id not in {waiting for waiting, _, _ in self.queue}
        type(self).count += 1
        self.queue.append((request_id, ids, params))

    def abort_request(self, request_ids: list[str]) -> None:
        self.queue = [request for request in self.queue if request[0] not in request_ids]

    def step(self) -> list[Any]:
        current, self.queue = self.queue[:STEP], self.queue[STEP:]
        return [self.answer(*request) for request in current][::-1]

    def answer(self, request_id: str, ids: list[int], params: Any) -> Any:
        import torch

        with torch.inference_mode():
            if isinstance(params, PoolingParams):
                states = self.network(input_ids=torch.tensor([ids])).last_hidden_state[0]
                return SimpleNamespace(
                    request_id=request_id, finished=True, outputs=SimpleNamespace(data=states.mean(0))
                )
            table = self.network(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)
            written = self.written(ids, params) if params.detokenize else ([], "length")
        cached_tokens = self.covered(ids) if not params.skip_reading_prefix_cache else 0
        self.blocks |= {tuple(ids[:end]) for end in range(BLOCK, len(ids) + 1, BLOCK)}
        words = params.logprob_token_ids or []
        output = SimpleNamespace(
            token_ids=written[0],
            finish_reason=written[1],
            logprobs=[{word: Logprob(float(table[-1, word])) for word in words}],
        )
        prompt = [None, *({word: Logprob(float("nan"))} for word in ids[1:])]
        for position in range(max(1, cached_tokens + 1), len(ids)):
            prompt[position] = {ids[position]: Logprob(float(table[position - 1, ids[position]]))}
        return SimpleNamespace(
            request_id=request_id,
            finished=True,
            num_cached_tokens=cached_tokens,
            outputs=[output],
            prompt_logprobs=prompt if params.prompt_logprobs is not None else None,
        )

    def covered(self, ids: list[int]) -> int:
        """How many tokens at the beginning are in the cache; the last one is always read."""
        ends = range(BLOCK, len(ids), BLOCK)
        return max((end for end in ends if tuple(ids[:end]) in self.blocks), default=0)

    def written(self, ids: list[int], params: Any) -> tuple[list[int], str]:
        """The tokens, up to one that ends a text, a stop text, or the end of a format."""
        import torch
        from transformers import RepetitionPenaltyLogitsProcessor

        text: list[int] = []
        changed = RepetitionPenaltyLogitsProcessor(params.repetition_penalty)
        held = self.matcher(params.structured_outputs)
        dice = torch.Generator().manual_seed(params.seed or 0)
        while len(text) < params.max_tokens:
            read = torch.tensor([[*ids, *text]])
            scores = changed(read, self.network(input_ids=read).logits[:, -1])
            if params.temperature:
                token = self.drawn(scores, params, dice)
            else:
                token = self.likeliest(ids, text, scores) if held is None else self.held(held, scores)
            text.append(token)
            shown = self.tokenizer.decode(text, skip_special_tokens=params.skip_special_tokens)
            if token == self.tokenizer.eos_token_id or any(stop in shown for stop in params.stop):
                return text, "stop"
        return text, "length"

    def likeliest(self, ids: list[int], text: list[int], scores: Any) -> int:
        """The token after a prompt and a text; tests dictate others."""
        return int(scores.argmax())

    def drawn(self, scores: Any, params: Any, dice: Any) -> int:
        """A token of the likeliest ones; top_p is left out."""
        import torch

        likeliest = scores[0].topk(params.top_k or scores.shape[-1])
        return int(
            likeliest.indices[torch.multinomial((likeliest.values / params.temperature).softmax(-1), 1, generator=dice)]
        )

    def matcher(self, held: Any) -> Any:
        """The state of a grammar at the beginning of a text, or None; a new one for every request."""
        from xgrammar import GrammarCompiler, GrammarMatcher, TokenizerInfo

        if held is None:
            return None
        tokenizer_info = TokenizerInfo.from_huggingface(self.tokenizer, vocab_size=self.network.config.vocab_size)
        return GrammarMatcher(GrammarCompiler(tokenizer_info, max_threads=1).compile_grammar(held.grammar))

    def held(self, matcher: Any, scores: Any) -> int:
        """The likeliest token that may follow."""
        from xgrammar import allocate_token_bitmask, apply_token_bitmask_inplace

        mask = allocate_token_bitmask(1, scores.shape[1])
        matcher.fill_next_token_bitmask(mask)
        apply_token_bitmask_inplace(scores, mask)
        token = int(scores.argmax())
        assert matcher.accept_token(token)
        return token
