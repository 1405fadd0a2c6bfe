"""The identity of a run: what changes an answer changes it, what does not does not, and old runs keep theirs."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import pytest

from figeval import RunConfig

REQUIRED_FLAGS = {"tasks": ("mini",), "model": "tfidf"}
DEFAULT_CONFIG = RunConfig(**REQUIRED_FLAGS)
OPTIONAL_IDENTITY_FLAGS = {
    name
    for name, hint in get_type_hints(RunConfig, include_extras=True).items()
    if any(getattr(mark, "identity", "") == "if given" for mark in getattr(hint, "__metadata__", ()))
}
FLAG_VALUES = {
    "system_instruction": "Be brief.",
    "system_as_user": True,
    "apply_chat_template": False,
    "max_new_tokens": 16,
    "shots": "shared",
    "orders": "cyclic",
    "prompts": ("all",),
    "probes": True,
    "protocol": "published",
    "split": "authors",
    "metrics": ("mrr",),
    "settings": {"mini_pairs.threshold": 0.5},
    "augment": {"add": "concepts"},
    "fewshot_sampler": "nearest",
    "fewshot_from": "mini_pairs",
    "calibrate": True,
    "sample": 0.1,
    "template": "impli/nli.en.jinja",
    "stratify": "cluster",
    "reasoning": "budget=100",
    "constrain": True,
    "samples": 3,
}


def test_runs_from_before_these_flags_are_still_found() -> None:
    """A literal of the version that made results/measured."""
    assert DEFAULT_CONFIG.identity() == "ef32c30c"


def test_settings_that_were_flags_make_the_same_run() -> None:
    """Literals of 0.2, where `--temperature` and `--threshold` were flags of their own."""
    identities = {(("temperature", 0.5),): "32822e61", (("threshold", 0.7),): "68462764"}
    identities[("threshold", -1), ("temperature", 2)] = "8025500d"
    for settings, identity in identities.items():
        config = RunConfig(**REQUIRED_FLAGS, settings=dict(settings))
        assert config.identity() == identity
        assert config.changed({**DEFAULT_CONFIG.record(), **dict(settings)}) == {}
    old = {"tasks": ["mini"], "model": "tfidf", "temperature": 0.5, "threshold": None}
    assert DEFAULT_CONFIG.changed(old) == {"settings": ({"temperature": 0.5}, {})}
    assert DEFAULT_CONFIG.changed({**old, "temperature": 1.0}) == {}


def test_every_later_flag_counts_where_it_is_given() -> None:
    assert set(FLAG_VALUES) == OPTIONAL_IDENTITY_FLAGS
    identities = {RunConfig(**REQUIRED_FLAGS, **{flag: value}).identity() for flag, value in FLAG_VALUES.items()}
    assert len(identities | {DEFAULT_CONFIG.identity()}) == len(FLAG_VALUES) + 1


@pytest.mark.parametrize("flag", sorted(OPTIONAL_IDENTITY_FLAGS))
def test_saying_the_default_is_saying_nothing(flag: str) -> None:
    assert RunConfig(**REQUIRED_FLAGS, **{flag: getattr(DEFAULT_CONFIG, flag)}).identity() == DEFAULT_CONFIG.identity()


@pytest.mark.parametrize(
    "harmless",
    [{"batch_size": 8}, {"device": "cpu"}, {"processes": 8}, {"output_path": Path("x")}, {"by": ("k",)}],
)
def test_what_changes_no_answer_changes_no_identity(harmless: dict) -> None:
    assert RunConfig(**REQUIRED_FLAGS, **harmless).identity() == DEFAULT_CONFIG.identity()


def test_a_template_file_is_the_same_in_any_folder() -> None:
    config, copy, revision = (
        RunConfig(**REQUIRED_FLAGS, template=file)
        for file in ("a/mine.jinja@1f0c9a2b", "b/mine.jinja@1f0c9a2b", "a/mine.jinja@2f0c9a2b")
    )
    assert config.record()["template"] == "mine.jinja@1f0c9a2b"
    assert config.changed(copy.record()) == {}
    assert set(config.changed(revision.record())) == {"template"}
    assert config.identity() == copy.identity() != revision.identity()


def test_characters_that_no_record_has_change_no_identity() -> None:
    """The record stores clean texts, from which `figeval verify` computes the identity and a run continues."""
    odd = RunConfig(tasks=("mini",), model="a\x1b[31m b\u202e", model_args={"c": "\x07d"}, system_instruction="\x00e")
    clean = RunConfig(tasks=("mini",), model="a b", model_args={"c": "d"}, system_instruction="e")
    assert odd.identity() == clean.identity()
    assert odd.changed(clean.record()) == clean.changed(odd.record()) == {}


def test_what_makes_another_run_is_told_with_both_values() -> None:
    before = RunConfig(**REQUIRED_FLAGS, model_args={"a": 1, "timeout": 3.0}).record()
    later = RunConfig(**REQUIRED_FLAGS, model_args={"a": 2, "timeout": 9.0}, limit=5, device="cpu", prompts=("all",))
    assert later.changed(before) == {
        "model_args": ({"a": 1}, {"a": 2}),
        "limit": (None, 5),
        "prompts": ([], ["all"]),
    }
    assert DEFAULT_CONFIG.changed({"tasks": ["mini"], "model": "tfidf"}) == {}, "a record without later flags"
    assert set(RunConfig(**REQUIRED_FLAGS, **FLAG_VALUES).changed(DEFAULT_CONFIG.record())) == set(FLAG_VALUES)
