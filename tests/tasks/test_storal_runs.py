"""STORAL's choice tasks on every route, in both languages, with tiny models and a copy of the archive made here."""

from __future__ import annotations

from pathlib import Path

import pytest

import figeval
from tests.plugins.tiny import Workshop
from tests.tasks.test_storal_rows import archive

TASKS = {"en": ("storal_mocpt_en", "storal_mopref_en"), "zh": ("storal_mocpt_zh", "storal_mopref_zh")}
# model → its checkpoint, the route of its own choosing, and others that are asked for
ROUTES: dict[str, tuple[tuple[str, str], str, tuple[str, ...]]] = {
    "encoder": (("bert", "Model"), "by_cosine", ()),
    "pairs": (("bert", "ForSequenceClassification"), "by_pair_score", ()),
    "masked": (("bert", "ForMaskedLM"), "by_loglikelihood", ()),
    "causal": (("gpt2", "LMHeadModel"), "by_loglikelihood", ("by_letter", "by_letter_likelihood")),
}
CONFIG = {"pairs": {"num_labels": 1}, "masked": {"max_position_embeddings": 300}, "causal": {"n_positions": 300}}
ARGUMENTS = {"encoder": {"pooling": "mean"}, "masked": {"max_length": 300}, "causal": {"max_length": 300}}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(params=["en", "zh"])
def language(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """English are the frozen items, which need the real pairs; Chinese is a copy of the archive."""
    if request.param == "en":
        request.getfixturevalue("real_data")
    monkeypatch.setenv("FIGEVAL_DATA_COPIES", f"storal={archive(tmp_path / 'copy')}")
    return str(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("model", ROUTES)
def test_every_route_with_its_floor(model: str, language: str, workshop: Workshop, tmp_path: Path) -> None:
    (kind, head), baselines, other_baselines = ROUTES[model]
    checkpoint = workshop(kind, head, **CONFIG.get(model, {}))
    for route in (baselines, *other_baselines):
        record = figeval.run(
            TASKS[language],
            model=f"{model}:{checkpoint}",
            model_args=ARGUMENTS.get(model, {}),
            routes={} if route == baselines else {"choice": route},
            limit=3,
            output_path=tmp_path / route,
        ).record
        tasks = {task.task: task for task in record.tasks}
        for name in TASKS[language]:
            task = tasks[name]
            assert (task.status, task.n, task.route) == ("done", 3, route)
            assert {baseline.baseline for baseline in task.baselines} == {"chance", "overlap", "no_query"}
            assert tasks[f"{name}@no_query"].is_floor
            scored = {score.metric for score in task.scores}
            assert ("acc_pmi" in scored) == (route == "by_loglikelihood")
            if language == "en":
                assert task.counts["truncated_inputs"] == 3  # and the run says so


@pytest.mark.slow
@pytest.mark.parametrize("model", ROUTES)
def test_win_rates_are_known_where_options_have_scores(
    model: str, real_data: str, workshop: Workshop, tmp_path: Path
) -> None:
    (kind, head), baselines, other_baselines = ROUTES[model]
    checkpoint = workshop(kind, head, **CONFIG.get(model, {}))
    for route in (baselines, *other_baselines):
        (task, floor) = figeval.run(
            "storal_preference_en",
            model=f"{model}:{checkpoint}",
            model_args=ARGUMENTS.get(model, {}),
            routes={} if route == baselines else {"choice": route},
            limit=3,
            output_path=tmp_path / route,
        ).record.tasks
        assert (task.status, task.route, floor.is_floor) == ("done", route, True)
        counted = {score.metric: score.n for score in task.scores if score.metric.startswith("win_")}
        assert counted == dict.fromkeys(
            ("win_antonym", "win_synonym", "win_synonym_antonym", "win_difference"), 0 if route == "by_letter" else 3
        )
