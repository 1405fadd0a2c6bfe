"""Prices: by hand, by the user's file, or by the file that figeval ships with, in this order."""

from __future__ import annotations

import datetime
import json
from importlib.resources import files
from typing import Any

import pytest

from figeval import ModelError
from figeval.builtin.plugins.api.prices import price_of, user_file
from figeval.builtin.plugins.api.providers import anthropic, openai

LOCAL_URL = "http://127.0.0.1:1/v1"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-used")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-used")


def write(content: Any) -> None:
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def write_prices(**prices: tuple[float, float]) -> None:
    models = {name: {"input": read, "output": wrote} for name, (read, wrote) in prices.items()}
    write({"checked": "2026-01-02", "models": models})


def prices_of(backend: Any) -> tuple[float | None, float | None, str]:
    settings = backend.settings
    return settings.input_price, settings.output_price, settings.price_source


def test_shipped_prices_hold_at_the_companies_addresses() -> None:
    read, wrote, source = prices_of(openai("gpt-4o-mini-2024-07-18"))
    assert (read, wrote) == (0.15, 0.6)
    assert source.startswith("shipped with figeval, checked 20")
    assert prices_of(anthropic("claude-haiku-4-5-20251001"))[:2] == (1, 5)
    assert prices_of(openai("gpt-4o-2024-08-06"))[:2] == (2.5, 10)
    assert prices_of(openai("gpt-4o-2024-05-13"))[:2] == (5, 15), (
        "its first release costs more than the name without a date"
    )
    assert prices_of(openai("gpt-4o-mini", base_url=LOCAL_URL)) == (None, None, "")
    assert prices_of(openai("gpt-4o-miniature")) == prices_of(openai("gpt-4")) == (None, None, "")


def test_the_users_file_wins_and_holds_everywhere() -> None:
    write_prices(**{"gpt-4o-mini": (1, 2), "mine": (3, 4)})
    source = "prices.json in FIGEVAL_HOME, checked 2026-01-02"
    assert prices_of(openai("gpt-4o-mini")) == (1, 2, source)
    assert prices_of(openai("mine", base_url=LOCAL_URL)) == (3, 4, source)
    assert prices_of(openai("gpt-4o"))[:2] == (2.5, 10), "what it does not list is as shipped"


def test_prices_by_hand_win() -> None:
    write_prices(mine=(3, 4))
    assert prices_of(openai("mine", base_url=LOCAL_URL, input_price=5, output_price=6)) == (5, 6, "")
    assert prices_of(openai("mine", base_url=LOCAL_URL, input_price=5)) == (5, None, ""), (
        "never half of one and half of another"
    )


def test_a_limit_of_cost_needs_a_price_from_anywhere() -> None:
    with pytest.raises(ModelError, match=r"--max_cost needs prices: .* or an entry for 'mine' in .*prices\.json"):
        openai("mine", base_url=LOCAL_URL, max_cost=1)
    write_prices(mine=(3, 4))
    assert openai("mine", base_url=LOCAL_URL, max_cost=1).settings.max_cost == 1


def test_the_record_says_where_prices_are_from() -> None:
    write_prices(mine=(3, 4))
    described = openai("mine", base_url=LOCAL_URL).describe()
    assert described["prices"] == {"input": 3, "output": 4, "source": "prices.json in FIGEVAL_HOME, checked 2026-01-02"}
    assert "prices" not in openai("mine", base_url=LOCAL_URL, input_price=5, output_price=6).describe()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"models": {}}',
        {"checked": "soon", "models": {}},
        {"checked": "2026-01-02", "models": {"m": {"input": -1, "output": 1}}},
        {"checked": "2026-01-02", "models": {"m": {"input": "1", "output": 1}}},
        {"checked": "2026-01-02", "models": {"m": {"input": 1}}},
        {"checked": "2026-01-02", "models": {"m": {"input": 1, "output": 1, "cached": 1}}},
    ],
)
def test_a_damaged_file_is_an_error_with_its_cure(content: Any) -> None:
    write(content)
    with pytest.raises(ModelError, match=r"prices\.json.*write it like"):
        openai("mine", base_url=LOCAL_URL)


def test_the_shipped_file_is_sound() -> None:
    content = json.loads((files("figeval.builtin.plugins.api") / "prices.json").read_text(encoding="utf-8"))
    datetime.date.fromisoformat(content["checked"])
    for name, price in content["models"].items():
        assert 0 < price["input"] < price["output"]
        known_price = price_of(name, official=True)
        assert known_price is not None and known_price.price.input == price["input"]
