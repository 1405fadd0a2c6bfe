"""From --model and --model_args to a backend."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from figeval import plugins
from figeval.errors import ModelError, UnknownName
from figeval.hooks import hookimpl
from figeval.models.capabilities import capabilities
from figeval.models.model import Backends, Model, open_model
from tests.fakes import Chatting, Closeness, Likelihood, Vectors, Writer


def factory(model="", pooling="mean", device=None):
    known = {"deterministic_by_name": True, "score_pairs": lambda pairs: []}
    return SimpleNamespace(model=model, pooling=pooling, device=device, **known)


class Plugin:
    @hookimpl
    def register_backends(self, register):
        register("plain", factory, "a fake")

    @hookimpl
    def resolve_backend(self, model):
        return "plain" if model.startswith("known/") else None


@pytest.fixture
def backends():
    manager = plugins.load(modules=())
    manager.load("fake", "test", Plugin)
    return Backends(manager)


def test_name_alone_and_name_with_model(backends):
    assert open_model(backends, "plain", {}).backend.model == ""
    assert open_model(backends, "plain:some/model", {}).backend.model == "some/model"


def test_a_plugin_recognises_a_hub_id(backends):
    opened = open_model(backends, "known/model", {"pooling": "cls"})
    assert (opened.backend_name, opened.backend.model, opened.backend.pooling) == ("plain", "known/model", "cls")


def test_lm_evals_spelling(backends):
    assert open_model(backends, "plain", {"pretrained": "gpt2"}).backend.model == "gpt2"


def test_unknown_model_names_near_ones(backends):
    with pytest.raises(UnknownName, match=r"unknown model 'plian'; did you mean 'plain'\?; see `figeval ls models`"):
        open_model(backends, "plian", {})


def test_unknown_option_names_near_ones(backends):
    with pytest.raises(ModelError, match="no option 'poling'; did you mean 'pooling'"):
        open_model(backends, "plain", {"poling": "cls"})


def test_common_options_go_only_to_those_who_know_them(backends):
    opened = open_model(backends, "plain", {}, {"device": "cpu", "seed": 3, "batch_size": None})
    assert opened.backend.device == "cpu"
    assert open_model(backends, "plain", {"device": "mps"}, {"device": "cpu"}).backend.device == "mps"


def test_capabilities_are_those_of_the_object():
    assert capabilities(Closeness()) == {"score_pairs"}
    assert capabilities(Vectors()) == {"embed"}
    partial = Vectors()
    partial.score_pairs = None  # a class that offers it, an object that does not
    assert capabilities(partial) == {"embed"}


class Both(Likelihood, Writer):
    """A base model: it goes on with a text and gives probabilities."""


class Overruling(Writer):
    converses = False


@pytest.mark.parametrize(
    ("backend", "converses"),
    [(Writer(), True), (Both(), False), (Chatting(), True), (Closeness(), False), (Overruling(), False)],
    ids=["behind an API", "base model", "chat template", "no prompts", "its own word"],
)
def test_who_answers_a_conversation(backend, converses):
    model = Model("m", "m", backend)
    assert model.converses is converses
    assert (model.chat is not None) is isinstance(backend, Chatting)
