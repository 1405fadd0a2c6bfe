"""A tagger that learns from scratch: the words of a window, hashed and added up. Enough to show how training goes."""

import json
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from figeval import ModelError, TrainError

BUCKETS, SIZE = 4096, 24
WEIGHTS_FILE, TAGS_FILE = "model.safetensors", "tagger.json"
IGNORED_LABEL = -100  # a place behind the end of a row


def hashed(tokens):
    """For each token the buckets of itself, its neighbours and its ending."""
    words = ["<", *(token.lower() for token in tokens), ">"]
    return [
        [crc32(f"{name}={value}".encode()) % BUCKETS for name, value in about.items()]
        for about in (
            {"before": words[i - 1], "word": words[i], "after": words[i + 1], "end": words[i][-3:]}
            for i in range(1, len(words) - 1)
        )
    ]


class Network(nn.Module):
    """Buckets → tags. `network(batches, beside)` gives the loss of every row, summed over its tokens."""

    def __init__(self, tags):
        super().__init__()
        self.tags = tuple(tags)
        self.buckets = nn.Embedding(BUCKETS, SIZE)
        self.out = nn.Linear(SIZE, len(self.tags))

    def logits(self, buckets):
        """Of shape (rows, tokens, tags), for buckets of shape (rows, tokens, 4)."""
        return self.out(torch.tanh(self.buckets(buckets).sum(dim=2)))

    def forward(self, batches, shared_inputs):
        """The losses of the rows of all batches."""
        return torch.cat([self.losses(**batch) for batch in batches])

    def losses(self, buckets, gold):
        """The loss of each row."""
        logits = self.logits(buckets).transpose(1, 2)
        return nn.functional.cross_entropy(logits, gold, ignore_index=IGNORED_LABEL, reduction="none").sum(dim=1)


class Features:
    """Examples as numbers: row i is example i, and weighs as much as it has tokens."""

    truncated = 0

    def __init__(self, examples, tags):
        tag_number = {tag: number for number, tag in enumerate(tags)}
        self.buckets = [hashed(example.tokens) for example in examples]
        for example in examples:
            if example.tags is None:
                raise TrainError(f"the tags of {example.id!r} are hidden, so there is nothing to learn from it")
        self.gold = [[tag_number[tag] for tag in example.tags] for example in examples]
        self.lengths = [len(row) for row in self.gold]
        self.weights = [float(length) for length in self.lengths]

    def batch(self, rows, draw):
        """The rows, filled up to the longest."""
        max_tokens = max(self.lengths[row] for row in rows)
        buckets = [self.buckets[row] + [[0] * 4] * (max_tokens - self.lengths[row]) for row in rows]
        gold = [self.gold[row] + [IGNORED_LABEL] * (max_tokens - self.lengths[row]) for row in rows]
        return {"buckets": torch.tensor(buckets), "gold": torch.tensor(gold)}

    def beside(self, rows):
        """Nothing: a row is read alone."""
        return []


class TaggerLearner:
    """How the tagger learns. `--model` names nothing to begin with."""

    select_by = None

    def __init__(self, setup):
        if setup.model != "scratch":
            raise TrainError(f"the head tagger learns from scratch, not from {setup.model!r}; write --model scratch")
        self.tags = setup.labels

    def network(self):
        """Fresh weights."""
        return Network(self.tags).train()

    def features(self, examples):
        """Numbers of the examples."""
        return Features(examples, self.tags)

    def backend(self, network):
        """The network as a model that tags."""
        return Tagger.of(network)

    def save(self, network, weights, folder):
        """Weights and tags; what figeval.json is to declare."""
        save_file({name: value.contiguous() for name, value in weights.items()}, folder / WEIGHTS_FILE)
        (folder / TAGS_FILE).write_text(json.dumps({"tags": self.tags}))
        return {"kind": "tokens"}

    def describe(self):
        """What the record says of it."""
        return {"buckets": BUCKETS, "size": SIZE}


class Tagger:
    """A trained tagger, from its folder."""

    capabilities = ("tag_tokens",)

    def __init__(self, model):
        folder = Path(model)
        try:
            self.network = Network(json.loads((folder / TAGS_FILE).read_text())["tags"])
            self.network.load_state_dict(load_file(folder / WEIGHTS_FILE))
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise ModelError(f"{model or 'tokens_tagger'} is no folder of a tagger ({error}); train one") from error

    @classmethod
    def of(cls, network):
        """A tagger with these very weights."""
        tagger = cls.__new__(cls)
        tagger.network = network
        return tagger

    @torch.no_grad()
    def tag_tokens(self, requests):
        """The best of the wanted tags that it knows, for each token."""
        return [self.tagged(request) for request in requests]

    def tagged(self, request):
        """The tags of one request."""
        tags = self.network.tags
        allowed = torch.tensor([tag in request.tags for tag in tags])
        device = self.network.out.weight.device
        logits = self.network.logits(torch.tensor([hashed(request.tokens)], device=device))[0].cpu()
        return [tags[index] for index in logits.masked_fill(~allowed, float("-inf")).argmax(dim=1).tolist()]

    def fingerprint(self):
        """A digest of the weights."""
        digest = sha256(repr(self.network.tags).encode())
        for name, value in sorted(self.network.state_dict().items()):
            digest.update(name.encode() + value.detach().cpu().numpy().tobytes())
        return f"tokens_tagger {digest.hexdigest()}"

    def describe(self):
        """What it knows."""
        return {"tags": list(self.network.tags)}
