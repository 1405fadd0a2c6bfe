"""Prices: by hand, by the user's file, or by the file that figeval ships with, in this order."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from figeval import Message, ModelError, Prompt
from tests.plugins.servers import Desk

LOCAL_URL = "http://127.0.0.1:1/v1"
SHIPPED = json.loads((Path(__file__).parents[2] / "plugins" / "api" / "prices.json").read_text(encoding="utf-8"))
Open = Callable[..., Any]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-used")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-used")


def write(home: Path, content: Any) -> None:
    home.mkdir(exist_ok=True)
    (home / "prices.json").write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def write_prices(home: Path, **prices: tuple[float, float]) -> None:
    models = {name: {"input": read, "output": wrote} for name, (read, wrote) in prices.items()}
    write(home, {"checked": "2026-01-02", "models": models})


def prices_of(backend: Any) -> tuple[float | None, float | None, str]:
    """Return the prices of a file and its name; nothing if there are none, or if they were given by hand."""
    prices = backend.describe().get("prices", {"input": None, "output": None, "source": ""})
    return prices["input"], prices["output"], prices["source"]


def test_shipped_prices_hold_at_the_companies_addresses(openai: Open, anthropic: Open) -> None:
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


def test_the_users_file_wins_and_holds_everywhere(own_home: Path, openai: Open) -> None:
    write_prices(own_home, **{"gpt-4o-mini": (1, 2), "mine": (3, 4)})
    source = "prices.json in FIGEVAL_HOME, checked 2026-01-02"
    assert prices_of(openai("gpt-4o-mini")) == (1, 2, source)
    assert prices_of(openai("mine", base_url=LOCAL_URL)) == (3, 4, source)
    assert prices_of(openai("gpt-4o"))[:2] == (2.5, 10), "what it does not list is as shipped"


def test_prices_by_hand_win(own_home: Path, desk: Desk, openai: Open) -> None:
    write_prices(own_home, mine=(3, 4))
    prompts = [Prompt((Message("user", "x" * 384),), (), 1000)]  # 100 tokens, and as many for an answer as it may have
    desk.models = []
    by_hand = openai("mine", base_url=desk.url, input_price=5000, output_price=6000)
    assert by_hand.estimate(prompts).endswith(f"a cost of at most {100 * 0.005 + 1000 * 0.006:.4f}")
    assert "cost" not in openai("mine", base_url=desk.url, input_price=5).estimate(prompts), "never half of one"


def test_a_limit_of_cost_needs_a_price_from_anywhere(own_home: Path, openai: Open) -> None:
    with pytest.raises(ModelError, match=r"--max_cost needs prices: .* or an entry for 'mine' in .*prices\.json"):
        openai("mine", base_url=LOCAL_URL, max_cost=1)
    write_prices(own_home, mine=(3, 4))
    assert openai("mine", base_url=LOCAL_URL, max_cost=1).describe()["cost"] == 0


def test_the_record_says_where_prices_are_from(own_home: Path, openai: Open) -> None:
    write_prices(own_home, mine=(3, 4))
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
def test_a_damaged_file_is_an_error_with_its_cure(own_home: Path, content: Any, openai: Open) -> None:
    write(own_home, content)
    with pytest.raises(ModelError, match=r"prices\.json.*write it like"):
        openai("mine", base_url=LOCAL_URL)


def test_the_shipped_file_is_sound(openai: Open) -> None:
    datetime.date.fromisoformat(SHIPPED["checked"])
    for name, price in SHIPPED["models"].items():
        assert 0 < price["input"] < price["output"]
        assert prices_of(openai(name))[:2] == (price["input"], price["output"])
