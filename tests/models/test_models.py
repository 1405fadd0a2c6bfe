"""From --model and --model_args to a backend."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from figeval import (
    CapabilityError,
    ComputesLoglikelihood,
    Embeds,
    Fills,
    FindsSpans,
    Generates,
    Harness,
    LabelsPairs,
    Model,
    ModelError,
    Outputs,
    PluginError,
    ScoresPairs,
    TextPair,
    UnknownName,
    Writes,
    hookimpl,
)
from figeval.testing import ask, capabilities, harness
from tests.fakes import FakeChatModel, FakeEncoder, FakeGenerator, FakeLanguageModel, FakePairScorer


def factory(model="", pooling="mean", device=None):
    module_fields = {"deterministic_by_name": True, "score_pairs": lambda pairs: []}
    return SimpleNamespace(model=model, pooling=pooling, device=device, **module_fields)


class Plugin:
    @hookimpl
    def register_backends(self, register):
        register("plain", factory, "a fake")

    @hookimpl
    def resolve_backend(self, model):
        return "plain" if model.startswith("known/") else None


@pytest.fixture
def trial():
    return harness(Plugin())


def open_model(trial, name, options, common=None):
    with trial.open_model(name, options, common) as model:
        return model


def test_name_alone_and_name_with_model(trial):
    assert open_model(trial, "plain", {}).backend.model == ""
    assert open_model(trial, "plain:some/model", {}).backend.model == "some/model"


def test_a_plugin_recognises_a_hub_id(trial):
    opened = open_model(trial, "known/model", {"pooling": "cls"})
    assert (opened.backend_name, opened.backend.model, opened.backend.pooling) == ("plain", "known/model", "cls")


def test_lm_evals_spelling(trial):
    assert open_model(trial, "plain", {"pretrained": "gpt2"}).backend.model == "gpt2"


def test_unknown_model_names_near_ones(trial):
    with pytest.raises(UnknownName, match=r"unknown model 'plian'; did you mean 'plain'\?; see `figeval ls models`"):
        open_model(trial, "plian", {})


def test_unknown_option_names_near_ones(trial):
    with pytest.raises(ModelError, match="no option 'poling'; did you mean 'pooling'"):
        open_model(trial, "plain", {"poling": "cls"})


def test_common_options_go_only_to_those_who_know_them(trial):
    opened = open_model(trial, "plain", {}, {"device": "cpu", "seed": 3, "batch_size": None})
    assert opened.backend.device == "cpu"
    assert open_model(trial, "plain", {"device": "mps"}, {"device": "cpu"}).backend.device == "mps"


def test_capabilities_are_those_of_the_object():
    assert capabilities(FakePairScorer()) == {"score_pairs"}
    assert capabilities(FakeEncoder()) == {"embed"}
    partial = FakeEncoder()
    partial.score_pairs = None  # a class that offers it, an object that does not
    assert capabilities(partial) == {"embed"}


class Both(FakeLanguageModel, FakeGenerator):
    """A base model: it goes on with a text and gives probabilities."""


class Overruling(FakeGenerator):
    is_chat_model = False


@pytest.mark.parametrize(
    ("backend", "is_chat_model"),
    [
        (FakeGenerator(), True),
        (Both(), False),
        (FakeChatModel(), True),
        (FakePairScorer(), False),
        (Overruling(), False),
    ],
    ids=["behind an API", "base model", "chat template", "no prompts", "its own word"],
)
def test_who_answers_a_conversation(backend, is_chat_model):
    model = Model("m", "m", backend)
    assert model.is_chat_model is is_chat_model
    assert (model.chat is not None) is isinstance(backend, FakeChatModel)


# ---- factories that cannot be called --------------------------------------------------------------------------------


class Parrot:
    deterministic_by_name = True

    def generate(self, prompts):
        return [prompt.text for prompt in prompts]


@pytest.mark.parametrize("factory", [Parrot, lambda: Parrot(), lambda *, model: Parrot()])
def test_a_factory_that_takes_no_model(trial, factory):
    trial.backends.registry.add("parrot", factory, "a test")
    with pytest.raises(PluginError, match=r"factory of model 'parrot' takes no `model`; write `def __init__\(self"):
        open_model(trial, "parrot", {})


def test_a_factory_with_an_option_that_has_to_be_given(trial):
    trial.backends.registry.add("parrot", lambda model, words: Parrot(), "a test")
    with pytest.raises(ModelError, match=r"'parrot' cannot be created with these options: missing .* 'words'; its"):
        open_model(trial, "parrot", {})
    assert isinstance(open_model(trial, "parrot", {"words": 3}).backend, Parrot)


def test_an_error_inside_a_factory_is_its_own(trial):
    trial.backends.registry.add("parrot", lambda model: len(3), "a test")
    with pytest.raises(TypeError, match="object of type 'int' has no len"):
        open_model(trial, "parrot", {})


# ---- who it is ------------------------------------------------------------------------------------------------------


def opening(trial, built):
    """Open a model of the object `built`."""
    trial.backends.registry.add("made", lambda model, size=1: built, "a test")
    return open_model(trial, "made", {"size": 2})


def test_a_model_says_who_it_is_or_is_known_by_its_name(trial):
    assert opening(trial, SimpleNamespace(fingerprint=lambda: "7")).fingerprint() == "7"


def test_a_model_that_is_known_by_its_name_and_options(trial):
    assert opening(trial, SimpleNamespace(deterministic_by_name=True)).fingerprint() == 'made: {"size": 2}'


def test_what_a_model_says_of_itself_comes_before_its_name(trial):
    both = SimpleNamespace(deterministic_by_name=True, fingerprint=lambda: "7")
    assert opening(trial, both).fingerprint() == "7"


@pytest.mark.parametrize("declared", [{}, {"deterministic_by_name": False}, {"fingerprint": "7"}])
def test_a_model_that_cannot_be_told_from_another_one_is_refused(trial, declared):
    with pytest.raises(ModelError, match=r"model 'made' has no fingerprint.*; give SimpleNamespace a method"):
        opening(trial, SimpleNamespace(**declared))


@pytest.mark.parametrize("fingerprint", ["", "  ", None, 7, b"7"])
def test_a_fingerprint_that_says_nothing(trial, fingerprint):
    opened = opening(trial, SimpleNamespace(fingerprint=lambda: fingerprint))
    with pytest.raises(ModelError, match=r"fingerprint\(\) of model 'made' returned .*; return a text that changes"):
        opened.fingerprint()


def test_what_the_user_can_mend_in_a_fingerprint_reaches_the_user(trial):
    def fingerprint():
        raise CapabilityError("the disk is full; make room")

    with pytest.raises(CapabilityError, match="the disk is full; make room"):
        opening(trial, SimpleNamespace(fingerprint=fingerprint)).fingerprint()


@pytest.mark.parametrize("method", ["fingerprint", "description", "close"])
def test_an_interrupt_is_an_interrupt(trial, method):
    def interrupted():
        raise KeyboardInterrupt

    names = {"description": "describe"}
    model = SimpleNamespace(**{"fingerprint": lambda: "1", names.get(method, method): interrupted})
    with pytest.raises(KeyboardInterrupt):
        getattr(opening(trial, model), method)()


def test_resolve_backend_that_returns_no_name():
    class Wrong:
        @hookimpl
        def resolve_backend(self, model):
            return Mute()

    trial = harness(Plugin(), Wrong())
    with pytest.raises(PluginError, match="resolve_backend answered 'some/model' with a Mute; return a name or None"):
        open_model(trial, "some/model", {})


class Mute:
    def __str__(self):
        raise ValueError

    __repr__ = __str__


# ---- requests and capabilities of a plugin's own --------------------------------------------------------------------


@dataclass(frozen=True)
class Syllables:
    capability: ClassVar[str] = "count_syllables"
    word: str


class Counter:
    capabilities = ("count_syllables",)

    def count_syllables(self, requests):
        return [len(request.word) for request in requests]

    def helper(self): ...


def test_a_capability_of_a_plugin_needs_no_word_in_figeval():
    assert capabilities(Counter()) == {"count_syllables"}
    assert ask(Counter(), [Syllables("crow"), Syllables("ox")]).values == [4, 2]


def test_every_request_names_a_capability_and_every_capability_is_a_protocol():
    protocols = {
        "embed": Embeds,
        "score_pairs": ScoresPairs,
        "label_pairs": LabelsPairs,
        "loglikelihood": ComputesLoglikelihood,
        "fill": Fills,
        "generate": Generates,
        "find_spans": FindsSpans,
        "write": Writes,
    }
    for name, protocol in protocols.items():
        assert capabilities(SimpleNamespace(**{name: len})) == {name}
        assert isinstance(SimpleNamespace(**{name: len}), protocol)
        assert not isinstance(SimpleNamespace(), protocol)


def test_what_is_no_request_is_told():
    with pytest.raises(PluginError, match="a route yielded a str; yield a list of requests"):
        ask(Counter(), ["crow"])


@pytest.mark.parametrize("answer", [np.array([1.0, 2.0]), [1.0, 2.0], (1.0, 2.0), Outputs([1.0, 2.0]), range(1, 3)])
def test_any_sequence_is_an_answer(answer):
    assert list(ask(SimpleNamespace(score_pairs=lambda pairs: answer), [TextPair("a", "b")] * 2).values) == [1.0, 2.0]


@pytest.mark.parametrize(
    "answer", [{1: 2}, {1, 2}, "ab", b"ab", None, 3, np.array(3.0), Outputs({1: 2, 3: 4}), {1: 2}.keys()]
)
def test_what_has_no_order_is_no_answer(answer):
    with pytest.raises(
        PluginError, match=r"SimpleNamespace\.score_pairs returned (an? \w+|None); return a list or an array"
    ):
        ask(SimpleNamespace(score_pairs=lambda pairs: answer), [TextPair("a", "b")] * 2)


def test_every_registered_factory_can_be_called_with_the_model_first() -> None:
    """A declared signature that differs from how the factory is called would refuse every model of its kind."""
    backends = Harness().backends
    assert len(backends.registry) > 10
    for entry in backends.registry:
        inspect.signature(entry.load()).bind_partial("model")


def test_a_folder_called_like_a_registered_model_is_still_a_folder() -> None:
    backends = Harness().backends
    assert backends.folder_name(Path("overlap")) == "./overlap"
    assert backends.folder_name(Path("tfidf:x")) == "./tfidf:x"
    assert backends.folder_name(Path("models/overlap")) == "models/overlap"
    assert backends.folder_name(Path("mine")) == "mine"
