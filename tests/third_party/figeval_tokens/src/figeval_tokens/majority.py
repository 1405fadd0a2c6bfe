"""A trivial model, beside which every score of a tagger stands."""

from collections import Counter


class MajorityTag:
    """The tag that most tokens have, for every token."""

    capabilities = ("tag_tokens",)  # figeval knows of its own capabilities only; this one is ours

    def __init__(self, model=""):
        self.counts = Counter()

    def fit(self, examples):
        """Count the tags."""
        self.counts = Counter(tag for example in examples for tag in example.tags or ())

    def tag_tokens(self, requests):
        """The same tag for all; of tags that are as frequent the first one of the task."""
        return [[max(request.tags, key=lambda tag: self.counts[tag])] * len(request.tokens) for request in requests]

    def fingerprint(self):
        """Changes with the counts."""
        return f"tokens_majority {sorted(self.counts.items())}"
