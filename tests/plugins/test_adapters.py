"""Adapters of peft as models: they answer as the whole model that peft merges and saves; their base is loaded once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import figeval
from figeval import Cloze, Continuation, ModelError, PairLabel, Text, TextPair
from figeval.testing import ask
from tests.cli.conftest import Cli
from tests.plugins.tiny import Workshop, change_config

peft = pytest.importorskip("peft", reason="needs peft: pip install 'figeval[lora]'")

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # of peft
RESTS = [Continuation("A stitch", " in time"), Continuation("He", " kicked the bucket")]
TEXTS = [Text("A stitch in time"), Text("Empty vessels")]
CLOZES = [Cloze("a ", " b", ("c", "in"))]
PAIRS = [TextPair("A stitch", "in time"), TextPair("He", "kicked the bucket")]


@dataclass
class Adapted:
    """A base, an adapter of it, and the whole model that peft makes of the two."""

    base: Path
    adapter: Path
    merged: Path


def adapt(base: Path, folder: Path, auto: str, config: Any, *, rows: int = 0, **options: Any) -> Adapted:
    """Train an adapter as peft's users do, but with random numbers instead of steps."""
    import transformers

    def load() -> Any:
        model = getattr(transformers, auto).from_pretrained(base, **options)
        if rows:
            model.resize_token_embeddings(rows, mean_resizing=False)
        return model

    torch.manual_seed(len(str(config)))
    network = peft.get_peft_model(load(), config)
    for parameter in network.parameters():
        if parameter.requires_grad:
            parameter.data += torch.randn_like(parameter) * 0.3
    network.save_pretrained(folder / "adapter")
    merged = peft.PeftModel.from_pretrained(load(), folder / "adapter").merge_and_unload()
    merged.save_pretrained(folder / "merged")
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(folder / "merged")
    return Adapted(base, folder / "adapter", folder / "merged")


def lora(task: str | None, **options: Any) -> Any:
    return peft.LoraConfig(task_type=task, **{"r": 3, "lora_alpha": 7, **options})


def outputs(model: Any, requests: Sequence[Any]) -> list[float]:
    """All numbers of the answers."""
    return [*numbers(ask(model, requests).values)]


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, float):
        yield value
    else:
        for part in value.tolist() if hasattr(value, "tolist") else value:
            yield from numbers(part)


def alike(numbers: list[float]) -> Any:
    """Equal but for the last bit, in which it makes a difference where a file of whole weights lies in memory."""
    return pytest.approx(numbers, rel=1e-5)


LINEAR = {"target_modules": "all-linear"}
CAUSAL: list[Any] = [
    lora("CAUSAL_LM"),
    lora(
        "CAUSAL_LM",
        use_rslora=True,
        bias="all",
        rank_pattern={"layers.0.self_attn.q_proj": 5},
        alpha_pattern={"v_proj": 2},
    ),
    lora("CAUSAL_LM", use_dora=True, **LINEAR),
    lora("CAUSAL_LM", modules_to_save=["lm_head", "embed_tokens"]),
    lora("CAUSAL_LM", trainable_token_indices=[3, 5]),
    lora("CAUSAL_LM", target_modules=r"model\.layers\.1\..*_proj"),
    lora(None, target_modules=["k_proj"], layers_to_transform=[1]),
    peft.IA3Config(task_type="CAUSAL_LM"),
    peft.LoHaConfig(r=2, task_type="CAUSAL_LM", **LINEAR),
    peft.LoKrConfig(r=2, task_type="CAUSAL_LM", **LINEAR),
    peft.AdaLoraConfig(total_step=10, task_type="CAUSAL_LM"),
    peft.OFTConfig(oft_block_size=4, task_type="CAUSAL_LM", **LINEAR),
    peft.HRAConfig(r=2, task_type="CAUSAL_LM", **LINEAR),
    peft.LNTuningConfig(task_type="CAUSAL_LM"),
]


@pytest.fixture
def load_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the folders from which transformers loads weights, as it does."""
    from transformers import PreTrainedModel

    load: Any = PreTrainedModel.from_pretrained.__func__
    folders: list[str] = []

    def from_pretrained(kind: Any, name: Any, *arguments: Any, **options: Any) -> Any:
        folders.append(str(name))
        return load(kind, name, *arguments, **options)

    monkeypatch.setattr(PreTrainedModel, "from_pretrained", classmethod(from_pretrained))
    return folders


@pytest.mark.slow
def test_adapters_side_by_side_answer_as_if_merged_by_peft(
    workshop: Workshop, tmp_path: Path, open_model: Any, load_calls: list[str]
) -> None:
    """The base is loaded once for all of them, and none depends on the ones before."""
    base = workshop("llama", "ForCausalLM", max_position_embeddings=80)  # no test before has loaded it
    pairs = [adapt(base, tmp_path / str(n), "AutoModelForCausalLM", config) for n, config in enumerate(CAUSAL)]
    load_calls.clear()
    models = [open_model(pair.adapter) for pair in pairs]
    answers = [outputs(model, RESTS) for model in models]
    assert len(load_calls) == 1
    assert len({str(answer) for answer in answers}) == len(pairs)
    assert [outputs(model, RESTS) for model in models] == answers
    for model, pair in zip(models, pairs, strict=True):
        weights = model.network.model.state_dict()
        assert all(weights[name].equal(weight) for name, weight in load_file(pair.merged / "model.safetensors").items())
    assert answers[0] == outputs(open_model(pairs[0].merged), RESTS)


@pytest.mark.slow
def test_one_command_runs_all_adapters_of_a_base_and_loads_it_once(
    workshop: Workshop, tmp_path: Path, cli: Cli, load_calls: list[str]
) -> None:
    base = workshop("llama", "ForCausalLM", max_position_embeddings=96)
    for folder, rank in (("a/b", 2), ("a-b", 3), ("c", 4)):  # of two, the folders would have the same name
        adapt(base, tmp_path / folder, "AutoModelForCausalLM", lora("CAUSAL_LM", r=rank))
    load_calls.clear()
    names = [word for folder in ("a/b", "a-b", "c") for word in ("--model", f"{folder}/adapter")]
    command = ("run", "--tasks", "mini_pairs", "--limit", "2", *names, "--output_path", "runs")
    done = cli(*command)
    assert done.code == 0, done.err
    assert len(load_calls) == 1
    runs = [figeval.load(folder) for folder in sorted((tmp_path / "runs").iterdir())]
    assert {run.record.model.name for run in runs} == {"a/b/adapter", "a-b/adapter", "c/adapter"}
    assert len({run.record.model.fingerprint for run in runs}) == len(runs)
    assert cli(*command).code == 0 and len(load_calls) == 1
    assert f"{base} (base of c/adapter)" in cli("checklist", "runs/c-adapter").out


ONE = {"num_labels": 1}
HEADED: list[Any] = [
    ("t5", "ForConditionalGeneration", "AutoModelForSeq2SeqLM", "seq2seq", lora("SEQ_2_SEQ_LM"), RESTS, {}),
    ("gpt2", "LMHeadModel", "AutoModelForCausalLM", "causal", lora("CAUSAL_LM", fan_in_fan_out=True), RESTS, {}),
    ("bert", "Model", "AutoModel", "encoder", lora("FEATURE_EXTRACTION"), TEXTS, {"pooling": "mean"}),
    ("roberta", "ForMaskedLM", "AutoModelForMaskedLM", "masked", lora(None, **LINEAR), CLOZES, {}),
    ("bert", "Model", "AutoModelForSequenceClassification", "pairs", lora("SEQ_CLS"), PAIRS, ONE),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in [
        ("roberta", "ForMaskedLM", "AutoModel", "encoder", lora("FEATURE_EXTRACTION"), TEXTS, {"pooling": "cls"}),
        ("llama", "ForCausalLM", "AutoModelForSequenceClassification", "pairs", lora("SEQ_CLS"), PAIRS, ONE),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "head", "auto", "backend", "config", "requests", "options"), HEADED)
def test_the_task_of_an_adapter_finds_its_backend(
    kind: str, head: str, auto: str, backend: str, config: Any, requests: Sequence[Any], options: dict[str, Any],
    workshop: Workshop, tmp_path: Path, open_model: Any,
) -> None:  # fmt: skip
    labels = {name: value for name, value in options.items() if name == "num_labels"}
    pair = adapt(workshop(kind, head), tmp_path, auto, config, **labels)
    pooling = {name: value for name, value in options.items() if name == "pooling"}
    by_name, by_backend = open_model(pair.adapter, **pooling), open_model(backend, pair.adapter, **pooling)
    assert outputs(by_name, requests) == outputs(by_backend, requests)
    assert outputs(by_name, requests) == alike(outputs(open_model(backend, pair.merged, **pooling), requests))


def test_three_labels_of_a_head_in_the_adapter(workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    auto = "AutoModelForSequenceClassification"
    pair = adapt(workshop("roberta", "ForMaskedLM"), tmp_path, auto, lora("SEQ_CLS"), num_labels=3)
    requests = [PairLabel("A stitch", "in time", ("entailment", "neutral", "contradiction"))]
    with pytest.raises(figeval.FigevalError, match="LABEL_2"):
        open_model(pair.adapter)
    labels = {"labels": "entailment:2;neutral:1;contradiction:0"}
    answers = outputs(open_model(pair.adapter, **labels), requests)
    assert answers == alike(outputs(open_model(pair.merged, **labels), requests))


@pytest.mark.parametrize(("kind", "head"), [("bert", "ForMaskedLM"), ("llama", "ForCausalLM")])
def test_an_adapter_of_one_head_serves_the_body_and_the_reverse(
    kind: str, head: str, workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    base, word_model = workshop(kind, head), "AutoModelForMaskedLM" if kind == "bert" else "AutoModelForCausalLM"
    headed = adapt(base, tmp_path / "whole", word_model, lora(None if kind == "bert" else "CAUSAL_LM"))
    encoders = [open_model("encoder", folder, pooling="mean") for folder in (headed.adapter, headed.merged)]
    assert outputs(encoders[0], TEXTS) == outputs(encoders[1], TEXTS)
    body = adapt(base, tmp_path / "body", "AutoModel", lora(None))
    shutil.copy(headed.adapter / "adapter_config.json", body.adapter)
    reverse, requests = ("masked", CLOZES) if kind == "bert" else ("causal", RESTS)
    parent = "bert" if kind == "bert" else "model"
    weights = load_file(body.adapter / "adapter_model.safetensors")
    weights = {name.replace("model.model.", f"model.model.{parent}.", 1): weight for name, weight in weights.items()}
    same = shutil.copytree(body.adapter, tmp_path / "same")
    save_file(weights, same / "adapter_model.safetensors")
    assert outputs(open_model(reverse, body.adapter), requests) == outputs(open_model(reverse, same), requests)


@pytest.mark.slow
def test_an_adapter_of_a_sentence_encoder(sentence_folder: Path, tmp_path: Path, open_model: Any) -> None:
    from sentence_transformers import SentenceTransformer

    config = lora("FEATURE_EXTRACTION", target_modules=["q", "v"])
    pair = adapt(sentence_folder, tmp_path, "AutoModel", config)
    encoder = SentenceTransformer(str(sentence_folder), device="cpu")
    encoder[0].auto_model.load_state_dict(load_file(pair.merged / "model.safetensors"))
    encoder.save_pretrained(str(tmp_path / "sentence"), create_model_card=False)
    answers = outputs(open_model(pair.adapter), TEXTS)
    assert answers == outputs(open_model(tmp_path / "sentence"), TEXTS)
    assert answers != outputs(open_model(sentence_folder), TEXTS)
    whole_files = shutil.ignore_patterns("model.safetensors", "config.json")
    by_library = shutil.copytree(sentence_folder, tmp_path / "by-library", ignore=whole_files)
    shutil.copytree(pair.adapter, by_library, dirs_exist_ok=True)
    assert outputs(open_model(by_library), TEXTS) == answers


@pytest.mark.slow
def test_tokens_that_the_adapter_added(workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    from transformers import AutoTokenizer

    base = workshop("llama", "ForCausalLM")
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens(["stitch", "bucket"])
    pair = adapt(base, tmp_path, "AutoModelForCausalLM", lora("CAUSAL_LM"), rows=len(tokenizer))
    for folder in (pair.adapter, pair.merged):
        tokenizer.save_pretrained(folder)
    answers = outputs(open_model(pair.adapter), RESTS)
    assert answers == outputs(open_model(pair.merged), RESTS)
    other = adapt(base, tmp_path / "other", "AutoModelForCausalLM", lora("CAUSAL_LM"))
    assert outputs(open_model(other.adapter), RESTS) == outputs(open_model(other.merged), RESTS)
    tokenizer.save_pretrained(other.adapter)
    with pytest.raises(ModelError, match="tokens"):
        outputs(open_model(other.adapter), RESTS)


@pytest.fixture(scope="module")
def simple_source(workshop: Workshop) -> Adapted:
    folder = workshop.folder / "simple"
    return adapt(workshop("gpt2", "LMHeadModel"), folder, "AutoModelForCausalLM", lora("CAUSAL_LM"))


@pytest.fixture
def simple(simple_source: Adapted, tmp_path: Path) -> Adapted:
    """An adapter, and what peft merges it to, which a test may change; it must not change the base."""
    adapter, merged = (
        shutil.copytree(folder, tmp_path / folder.name) for folder in (simple_source.adapter, simple_source.merged)
    )
    return Adapted(simple_source.base, adapter, merged)


def test_the_record_pins_adapter_and_base(simple: Adapted, tmp_path: Path, open_model: Any) -> None:
    model = open_model(simple.adapter)
    other_base = shutil.copytree(simple.base, tmp_path / "base")
    same = open_model(simple.adapter, base=str(other_base))
    assert model.fingerprint() == same.fingerprint()
    adapter = model.describe()["adapter"]
    assert adapter["type"] == "LORA" and adapter["base"] == str(simple.base)
    assert adapter["base_fingerprint"] in model.fingerprint()
    (other_base / "vocab.txt").write_text("changed")
    assert open_model(simple.adapter, base=str(other_base)).fingerprint() != model.fingerprint()
    config = json.loads((simple.adapter / "adapter_config.json").read_text())
    (simple.adapter / "adapter_config.json").write_text(json.dumps(config | {"lora_alpha": 8}))
    assert open_model(simple.adapter).fingerprint() != model.fingerprint()


def test_a_run_does_not_go_on_with_another_base(simple: Adapted, tmp_path: Path) -> None:
    base = shutil.copytree(simple.base, tmp_path / "base")
    config_of(base_model_name_or_path=str(base))(simple)
    run = {"model": simple.adapter, "limit": 1, "baselines": False, "device": "cpu", "output_path": tmp_path / "run"}
    base_digest = figeval.run("mini_pairs", **run).record.model.fingerprint.split()[-1]
    (base / "vocab.txt").write_text("changed")
    with pytest.raises(figeval.RecordError, match=r"weights of .* have changed") as caught:
        figeval.run("mini_pairs", **run)
    old, _, new = str(caught.value).partition(" before, base ")
    old_digest, new_digest = old.split()[-1].strip("…"), new.split()[0].strip("…")
    assert base_digest.startswith(old_digest) and not base_digest.startswith(new_digest)


def test_another_state_of_the_base_is_warned_of(simple: Adapted, open_model: Any) -> None:
    """Adapters that were trained here know the digest of their base."""
    file = simple.adapter / "adapter_model.safetensors"
    weights = load_file(file)
    for digest, warnings in (("sha256:other", 1), (open_model(simple.base).fingerprint(), 0)):
        save_file(weights, file, {"base": digest})
        model = open_model(simple.adapter)
        outputs(model, RESTS)
        assert len(model.describe().get("warnings", ())) == warnings


@pytest.mark.parametrize(("path", "trained_here"), [("models/base", False), ("models/base", True), ("", True)])
def test_a_base_that_was_moved_with_its_adapter_is_found(
    path: str, trained_here: bool, simple: Adapted, tmp_path: Path, open_model: Any
) -> None:
    """Adapters of peft may name it by a path from where they were trained, those of figeval have a whole path."""
    before = tmp_path / "before"
    base = shutil.copytree(simple.base, before / "models" / "base")
    adapter = shutil.copytree(simple.adapter, before / "adapters" / "first")
    file, digest = adapter / "adapter_model.safetensors", open_model(base).fingerprint()
    save_file(load_file(file), file, {"base": digest} if trained_here else None)
    config_of(base_model_name_or_path=path or str(base))(Adapted(base, adapter, simple.merged))
    answers = outputs(open_model(simple.adapter), RESTS)
    (tmp_path / "elsewhere").mkdir()
    after = before.rename(tmp_path / "elsewhere" / "after")
    assert outputs(open_model(after / "adapters" / "first"), RESTS) == answers
    (after / "models" / "base" / "vocab.txt").write_text("changed")
    if trained_here:
        with pytest.raises(ModelError, match="base=FOLDER"):
            open_model(after / "adapters" / "first")


def test_a_folder_of_the_same_name_is_not_taken_for_the_base(simple: Adapted, tmp_path: Path, open_model: Any) -> None:
    shutil.copytree(simple.base, tmp_path / "base")
    config_of(base_model_name_or_path="/models/base")(simple)
    with pytest.raises(ModelError, match="base=FOLDER"):
        open_model(simple.adapter)


def test_weights_in_a_pickle_are_read_without_running_it(simple: Adapted, tmp_path: Path, open_model: Any) -> None:
    answers = outputs(open_model(simple.adapter), RESTS)
    weights = load_file(simple.adapter / "adapter_model.safetensors")
    (simple.adapter / "adapter_model.safetensors").unlink()
    torch.save(weights, simple.adapter / "adapter_model.bin")
    assert outputs(open_model(simple.adapter), RESTS) == answers

    class Attack:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "run",))

    torch.save({**weights, "attack": Attack()}, simple.adapter / "adapter_model.bin")
    with pytest.raises(ModelError):
        outputs(open_model(simple.adapter), RESTS)
    assert not (tmp_path / "run").exists()


def config_of(**changes: Any) -> Callable[[Adapted], None]:
    def change(pair: Adapted) -> None:
        file = pair.adapter / "adapter_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


def weights_of(change: Callable[[str, torch.Tensor], dict[str, torch.Tensor]]) -> Callable[[Adapted], None]:
    def rewrite(pair: Adapted) -> None:
        file = pair.adapter / "adapter_model.safetensors"
        changed: dict[str, torch.Tensor] = {}
        for name, tensor in load_file(file).items():
            changed |= change(name, tensor)
        save_file(changed, file)

    return rewrite


DAMAGE: dict[str, tuple[Callable[[Adapted], object], str]] = {
    "prompts": (config_of(peft_type="PROMPT_TUNING"), "PROMPT_TUNING.*cannot be merged"),
    "no type": (config_of(peft_type=None), "cannot be merged"),
    "hostile type": (config_of(peft_type="\x1b[2Ja\u202e" * 99), "cannot be merged"),
    "after a token": (config_of(alora_invocation_tokens=[1, 2]), "alora_invocation_tokens"),
    "repeated layers": (config_of(layer_replication=[[0, 1]]), "layer_replication"),
    "pissa": (config_of(init_lora_weights="pissa"), "pissa.*path_initial_model"),
    "unhashable": (config_of(init_lora_weights=["pissa"]), "path_initial_model"),
    "no base": (config_of(base_model_name_or_path=None), "base=…"),
    "missing base": (config_of(base_model_name_or_path="nowhere/at/all"), "base=FOLDER"),
    "unknown option": (config_of(use_magic=True), "use_magic.*does not know"),
    "wrong kind of value": (config_of(target_modules=7), "cannot be merged"),
    "other rank": (config_of(r=2), "size mismatch"),
    "huge rank": (config_of(r=10**9), "rank"),
    "negative rank": (config_of(r=-1), "rank"),
    "other modules": (config_of(target_modules=["c_fc"]), "unexpected|no place"),
    "more modules": (config_of(target_modules=["c_fc", "c_attn"]), "no weights for"),
    "not a number": (weights_of(lambda name, tensor: {name: tensor * float("nan")}), "not finite"),
    "other model": (weights_of(lambda name, tensor: {name.replace("attn", "attention"): tensor}), "no module"),
    "no adapter": (weights_of(lambda name, tensor: {"a": tensor.clone()}), "no weights of an adapter"),
    "no weights": (lambda pair: (pair.adapter / "adapter_model.safetensors").unlink(), "adapter_model.safetensors"),
    "cut off": (lambda pair: (pair.adapter / "adapter_model.safetensors").write_bytes(b"{}"), "cannot be merged"),
    "no pattern": (config_of(target_modules="("), "no regular expression"),
    "no pattern of values": (config_of(alpha_pattern={"(": 2}), "no regular expression"),
    "pattern of layers": (config_of(layers_to_transform=[0], layers_pattern="(a+)+"), "layers_pattern"),
    "no JSON": (lambda pair: (pair.adapter / "adapter_config.json").write_bytes(b"{"), "adapter_config.json"),
    "two models": (lambda pair: shutil.copy(pair.merged / "model.safetensors", pair.adapter), "both an adapter"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_what_cannot_be_merged_is_one_line(name: str, simple: Adapted, open_model: Any) -> None:
    damage, words = DAMAGE[name]
    damage(simple)
    with pytest.raises(ModelError, match=words) as caught:
        outputs(open_model("causal", simple.adapter), RESTS)
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value) and "\u202e" not in str(caught.value)


def test_a_pattern_on_which_re_would_never_end(simple: Adapted, open_model: Any) -> None:
    pattern = r"(?:(?:[a-z_0-9]+[.]?)+)+[!#]"
    answers = outputs(open_model(simple.adapter), RESTS)
    config_of(rank_pattern={pattern: 3}, alpha_pattern={pattern: 3})(simple)
    assert outputs(open_model(simple.adapter), RESTS) == answers
    config_of(target_modules=pattern)(simple)
    with pytest.raises(ModelError, match="target_modules"):
        outputs(open_model(simple.adapter), RESTS)


def test_files_beside_an_adapter_are_not_those_of_the_one_before(
    simple: Adapted, tmp_path: Path, open_model: Any
) -> None:
    """Files that libraries read count, such as the token that ends a text; notes on the training do not."""
    other = shutil.copytree(simple.adapter, tmp_path / "other")
    same = shutil.copytree(simple.adapter, tmp_path / "noted")
    (same / "figeval.json").write_text('{"about": {"seed": 1}}')
    (simple.adapter / "generation_config.json").write_text('{"eos_token_id": 7}')
    models = [open_model(folder) for folder in (simple.adapter, other, same)]
    networks = [model.network.model for model in models]
    ends = [network.generation_config.eos_token_id for network in networks]
    assert ends[0] == 7 and ends[1] == ends[2] != 7
    embeddings = [network.get_input_embeddings().weight for network in networks]
    assert embeddings[1] is embeddings[2]


def test_a_module_of_a_sentence_encoder_may_lie_beside_its_adapter(
    sentence_folder: Path, tmp_path: Path, open_model: Any
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense

    base = SentenceTransformer(str(sentence_folder), device="cpu")
    width = base.get_embedding_dimension() or 0
    base.append(Dense(width, 3, activation_function=torch.nn.Identity()))
    base.save_pretrained(str(tmp_path / "base"), create_model_card=False)
    config = lora("FEATURE_EXTRACTION", target_modules=["q", "v"])
    pair = adapt(tmp_path / "base", tmp_path, "AutoModel", config)
    plain = outputs(open_model(pair.adapter), TEXTS)
    whole_files = shutil.ignore_patterns("config.json")
    copy = shutil.copytree(tmp_path / "base", tmp_path / "by-library", ignore=whole_files)
    (copy / "model.safetensors").unlink()
    shutil.copytree(pair.adapter, copy, dirs_exist_ok=True)
    assert list(copy.glob("*_Dense/model.safetensors"))
    assert outputs(open_model(copy), TEXTS) == plain


def test_a_sparse_encoder_takes_another_base(workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    pair = adapt(workshop("bert", "ForMaskedLM"), tmp_path, "AutoModelForMaskedLM", lora(None, **LINEAR))
    answers = outputs(open_model("sparse", pair.merged, pooling="max"), PAIRS)
    moved = shutil.copytree(pair.base, tmp_path / "moved")
    config_of(base_model_name_or_path="nowhere/at/all")(pair)
    assert outputs(open_model("sparse", pair.adapter, pooling="max", base=str(moved)), PAIRS) == alike(answers)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of peft, which reads its own ranks as a pattern
def test_adalora_has_the_ranks_that_training_left(workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    from transformers import AutoModelForCausalLM

    base = workshop("llama", "ForCausalLM")
    schedule = {"total_step": 8, "tinit": 1, "tfinal": 2, "deltaT": 1, "beta1": 0.5, "beta2": 0.5}
    config = peft.AdaLoraConfig(init_r=4, target_r=2, task_type="CAUSAL_LM", **schedule)
    network = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    ids = torch.arange(16).reshape(2, 8)
    for step in range(8):
        network(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        network.base_model.update_and_allocate(step)
        optimizer.zero_grad()
    network.save_pretrained(tmp_path / "adapter")
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["rank_pattern"]
    merged = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), tmp_path / "adapter")
    merged_folder = shutil.copytree(base, tmp_path / "whole")
    merged.merge_and_unload().save_pretrained(merged_folder)
    answers = outputs(open_model("causal", tmp_path / "adapter"), RESTS)
    assert answers == alike(outputs(open_model("causal", merged_folder), RESTS))
    assert answers != outputs(open_model("causal", base), RESTS)


def test_bases_that_are_no_base(simple: Adapted, tmp_path: Path, open_model: Any) -> None:
    with pytest.raises(ModelError, match="an adapter, too"):
        open_model(simple.adapter, base=str(shutil.copytree(simple.adapter, tmp_path / "stacked")))
    quantised = change_config(simple.base, tmp_path / "quantised", quantization_config={"quant_method": "gptq"})
    with pytest.raises(ModelError, match="quantised"):
        open_model(simple.adapter, base=str(quantised))
    with pytest.raises(ModelError, match="is for adapters"):
        open_model(simple.base, base=str(simple.base))


def test_code_beside_an_adapter_is_never_run(simple: Adapted, tmp_path: Path, open_model: Any) -> None:
    config = json.loads((simple.base / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "modeling.Model", "AutoConfig": "modeling.Config"}
    (simple.adapter / "config.json").write_text(json.dumps(config))
    (simple.adapter / "modeling.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    outputs(open_model(simple.adapter, trust_remote_code=True), RESTS)
    assert not (tmp_path / "run").exists()
