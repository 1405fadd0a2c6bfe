"""Environment of golden runs: generated tiny models, a server with a scripted chat model, and the command line."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.golden.replies import SCRIPTS
from tests.plugins.headed import joint_checkpoint
from tests.plugins.servers import Handler, anthropic_answer, desk_open, openai_answer, question, says, talkative
from tests.plugins.tiny import BERT, SMALL_SIZES, Workshop, make_tokenizer, save, word_pieces

GOLDEN_FOLDER = Path(__file__).resolve().parent
ROOT = GOLDEN_FOLDER.parent.parent
TASKS = GOLDEN_FOLDER / "tasks_for_runs"
MINI = ROOT / "tasks" / "mini"
INTERRUPTED_SCRIPT = "plain@30"
POSITIONS = 256
SPREAD = 5  # of fresh weights: inputs matter, and roundings do not
LABELS: dict[str, Any] = {"id2label": {0: "entailment", 1: "neutral", 2: "contradiction"}, "num_labels": 3}
ANTHROPIC = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}  # why a reply ended
GENERATION_HEAD = "ForConditionalGeneration"


def sentences() -> list[str]:
    """Every text of the sample, to learn a vocabulary from."""
    sentence_list = []
    for name in ("proverbs", "narratives", "pairs"):
        rows = map(json.loads, (MINI / f"{name}.jsonl").read_text("utf-8").splitlines())
        sentence_list += [
            row[key] for row in rows for key in ("proverb", "narrative", "premise", "hypothesis") if key in row
        ]
    return sentence_list


@contextmanager
def single_threaded() -> Iterator[None]:
    """Context manager in which torch has one thread, because sums depend on the number of threads."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Models:
    """Folders of tiny models by name, each made when it is first asked for, with the same weights every time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._workshop = Workshop(folder / "parts")
        self._makers: Mapping[str, Callable[[Path], object]] = {
            "encoder": partial(self._bert, "Model"),
            "cross": partial(self._bert, "ForSequenceClassification", num_labels=1),
            "nli": partial(self._bert, "ForSequenceClassification", **LABELS),
            "faithful": self._faithful,
            "masked": partial(self._bert, "ForMaskedLM"),
            "qa": partial(self._bert, "ForQuestionAnswering"),
            "joint": self._joint,
            "causal": partial(self._copied, "llama", "ForCausalLM"),
            "chat": self._chat,
            "gpt2": partial(self._copied, "gpt2", "LMHeadModel"),
            "seq2seq": partial(self._copied, "t5", GENERATION_HEAD, initializer_factor=0.1),
            "holes": self._holes,
            "vectors": self._vectors,
        }

    def __call__(self, name: str) -> Path:
        """The folder (or file) of a model; raises `KeyError` for a name that nothing is made under."""
        target = self.folder / name
        if not target.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._makers[name](target)
        return target

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = make_tokenizer(partial(word_pieces, texts=sentences(), size=500), BERT)
        tokenizer.model_max_length = POSITIONS
        return tokenizer

    def _bert(self, head: str, target: Path, **config: Any) -> None:
        import torch
        import transformers

        torch.manual_seed(20)
        size = {"vocab_size": len(self._tokenizer), "max_position_embeddings": POSITIONS, **SMALL_SIZES}
        model = getattr(transformers, f"Bert{head}")(transformers.BertConfig(**size, **config))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(SPREAD if parameter.ndim > 1 else 1)
        save(model, self._tokenizer, target)

    def _faithful(self, target: Path) -> None:
        """A classifier of stories and morals, as a training would have left it."""
        self._bert("ForSequenceClassification", target, id2label={0: "matched", 1: "mismatched"}, num_labels=2)
        score = {"split": "test", "metric": "acc", "value": 0.75, "low": 0.5, "high": 0.875, "n": 8, "clusters": 4}
        about = {"task": "storal_faithfulness_en", "head": "cross", "trained_from": "minilm", "held_out": score}
        (target / "figeval.json").write_text(json.dumps({"kind": "pairs", "max_length": 32, "about": about}))

    def _joint(self, target: Path) -> None:
        joint_checkpoint(self("encoder"), target)

    def _copied(self, kind: str, head: str, target: Path, **config: Any) -> None:
        room = {"gpt2": "n_positions", "llama": "max_position_embeddings"}
        roomy = {room[kind]: 1024} if kind in room else {}
        shutil.copytree(self._workshop(kind, head, **roomy, **config), target)
        file = target / "tokenizer_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"model_max_length": 1024}))

    def _chat(self, target: Path) -> None:
        talkative(Path(shutil.copytree(self("causal"), target)))

    def _holes(self, target: Path) -> None:
        """An encoder-decoder whose tokenizer has a mask."""
        from transformers import AutoTokenizer

        shutil.copytree(self._workshop("bart", GENERATION_HEAD, max_position_embeddings=1024), target)
        tokenizer = AutoTokenizer.from_pretrained(target, model_max_length=1024)
        tokenizer.add_special_tokens({"mask_token": "<unk>"})
        tokenizer.save_pretrained(target)

    def _vectors(self, target: Path) -> None:
        """Vectors of most words of the sample, by what they are spelled like."""
        words = sorted({word for text in sentences() for word in re.findall(r"[a-z]+", text.lower())})
        lines = []
        for word in words:
            numbers = [zlib.crc32(f"{word}{dimension}".encode()) % 2001 / 1000 - 1 for dimension in range(8)]
            lines += [" ".join([word, *(f"{number:.3f}" for number in numbers)])] if len(word) > 2 else []
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Done:
    """Result of a command."""

    code: int
    out: str
    err: str


@dataclass
class Stage:
    """Commands run one after the other in a folder of their own; `{out}`, `{models}/NAME`, `{tasks}` and `{server}` in
    them are put in words.
    """

    folder: Path
    models: Models
    server: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def out(self) -> Path:
        """Where runs and trainings of the case go."""
        return self.folder / "out"

    def filled(self, text: str) -> str:
        """The text with its placeholders put in words; the models that it names are made."""
        text = re.sub(r"\{models\}/(\w+)", lambda match: str(self.models(match[1])), text)
        replacements = {"{out}": str(self.out), "{tasks}": str(TASKS), "{server}": self.server}
        for name, path in replacements.items():
            text = text.replace(name, path)
        return text

    def emptied(self, text: str) -> str:
        """The text with placeholders where machines and folders differ."""
        for path, name in self._placeholders.items():
            text = text.replace(path, name)
        return text

    @cached_property
    def _placeholders(self) -> dict[str, str]:
        placeholders = {
            str(self.out): "{out}",
            str(self.models.folder): "{models}",
            str(TASKS): "{tasks}",
            str(ROOT): "{root}",
            str(self.folder): "{folder}",
        }
        if self.server:
            placeholders[self.server] = "{server}"
        return placeholders

    def identities(self) -> dict[str, str]:
        """What identifies each run below the case's folder, and this version of figeval, with a name for it. The
        identity of a run depends on where its model is.
        """
        records = [json.loads(file.read_text("utf-8")) for file in sorted(self.folder.rglob("run.json"))]
        return {**{record["identity"]: "{identity}" for record in records}, version("figeval"): "{figeval}"}

    def figeval(self, arguments: list[str]) -> Done:
        """Run `figeval …` in this process."""
        from figeval.cli.main import main

        filled = [self.filled(argument) for argument in arguments]
        printed, complained = io.StringIO(), io.StringIO()
        code = 0
        with self.inside(), redirect_stdout(printed), redirect_stderr(complained):
            try:
                main(filled)
            except SystemExit as end:
                code = int(end.code or 0)
        return Done(code, printed.getvalue(), complained.getvalue())

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Be in the case's folder, with its environment."""
        self.folder.mkdir(parents=True, exist_ok=True)
        before = Path.cwd()
        environment = {"COLUMNS": "200", "FIGEVAL_HOME": str(self.folder / "home"), "FIGEVAL_PLUGINS": ""}
        environment |= {name: self.filled(value) for name, value in self.environment.items()}
        with patch.dict(os.environ, environment):
            os.chdir(self.folder)
            try:
                yield
            finally:
                os.chdir(before)


def thoughts(text: str) -> list[dict[str, str]]:
    """What a model thought, as Anthropic's API tells it."""
    return [{"type": "thinking", "thinking": text}] if text else []


@contextmanager
def serving(script: str) -> Iterator[str]:
    """The address of a chat model that replies by a script of `SCRIPTS`; none for the empty script. `NAME@N` presses
    Ctrl-C at question N, once; `interrupted` is `plain@30`.
    """
    if not script:
        yield ""
        return
    name, _, at = (INTERRUPTED_SCRIPT if script == "interrupted" else script).partition("@")
    reply, lock, request_count = SCRIPTS[name], threading.Lock(), 0

    def usual(handler: Handler, body: bytes) -> None:
        nonlocal request_count
        with lock:
            request_count += 1
            if at and request_count == int(at):
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        answer = reply(question(body))
        if answer.status != 200:
            says(answer.status, {"error": {"message": "I have never heard of this"}})(handler, body)
            return
        reasoning: dict[str, Any] = {"reasoning_content": answer.thought} if answer.thought else {}
        if handler.path.endswith("/messages"):
            handler.send(200, anthropic_answer(answer.text, ANTHROPIC[answer.reason], *thoughts(answer.thought)))
        else:
            handler.send(200, openai_answer(answer.text, answer.reason, **reasoning))

    with desk_open() as desk:
        desk.usual = usual
        yield desk.url
