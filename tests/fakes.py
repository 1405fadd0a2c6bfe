"""Re-export of `figeval.testing.fakes`, the fake models that plugin authors can use too."""

from figeval.testing.fakes import (
    FakeChatModel,
    FakeClassifier,
    FakeEncoder,
    FakeGenerator,
    FakeLanguageModel,
    FakeMaskFiller,
    FakeModel,
    FakePairScorer,
    multi_round_route,
)

__all__ = [
    "FakeChatModel",
    "FakeClassifier",
    "FakeEncoder",
    "FakeGenerator",
    "FakeLanguageModel",
    "FakeMaskFiller",
    "FakeModel",
    "FakePairScorer",
    "multi_round_route",
]
