"""A listener of `figeval.models.progress`."""

from __future__ import annotations


class Ears:
    """A listener that writes everything down."""

    def __init__(self) -> None:
        self.models: list[str] = []
        self.heard: list[tuple[int, int]] = []

    def loading(self, model: str) -> None:
        self.models.append(model)

    def waiting(self, phase: str) -> None:
        pass

    def asked(self, answered: int, requests: int) -> None:
        self.heard.append((answered, requests))
