"""The training loop: forward, backward, clip, step; evaluate, keep the best checkpoint, stop early, resume.

A step is `batch_size` examples, however many batches and processes it takes: every loss is divided by the weight of the
whole step. The random numbers of a step depend only on seed, step and process, so a training that was killed and
resumed ends with the same weights as one that was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from figeval.errors import TrainError
from figeval.training.adapters import Adapters, with_adapters
from figeval.training.batches import Epochs, Share, budget, shares
from figeval.training.config import TrainConfig
from figeval.training.contract import Features, Learner
from figeval.training.distributed import Distributed
from figeval.training.optimizers import optimizer_of, rate, set_rate
from figeval.training.selection import Criterion, Evaluation, best_of, exhausted
from figeval.training.state import sizes
from figeval.training.train_folder import Progress, TrainFolder
from figeval.types import JSON

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

LOSS = "loss"
Scores = dict[str, float | None]


class TrainingObserver(Protocol):
    """Observer of a training's progress. The scores of step 0 are those of the model before training."""

    def preparing(self, what: str) -> None: ...  # noqa: D102
    def warned(self, text: str) -> None: ...  # noqa: D102
    def began(self, total: int, done: int) -> None: ...  # noqa: D102
    def stepped(self, step: int, loss: float, rate: float, speed: float, remaining: float) -> None: ...  # noqa: D102
    def evaluated(self, step: int, scores: Scores, best: bool) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The configuration and the parts of one training.

    `ids` are those of the examples of `train`, `data` is a digest of all examples, `prompts` are what the model reads
    before texts. `dev` is given if the loss on it is wanted, `score` computes the metrics of a backend; both are None
    if no checkpoint is chosen. `about` makes the `about` of figeval.json from the progress, `remember` writes to a
    checkpoint which examples the model has seen.
    """

    config: TrainConfig
    learner: Learner
    train: Features
    ids: Sequence[str]
    criterion: Criterion
    folder: TrainFolder
    observer: TrainingObserver
    about: Callable[[Progress], JSON]
    remember: Callable[[Path], None] | None = None
    data: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    dev: Features | None = None
    score: Callable[[object, Distributed], Scores] | None = None


def train(job: Job, distributed: Distributed) -> Progress:
    """Train to the end, from the last checkpoint if there is one, and put the chosen model at the top of the folder.

    Raises:
        TrainError: the loss is not finite, or the folder belongs to another training.
    """
    with job.folder.locked() if distributed.is_main else nullcontext():
        progress = job.folder.begin(job.config, job.data, job.prompts) if distributed.is_main else None
        progress = cast("Progress", distributed.broadcast(progress))
        if not progress.complete:
            Session(job, distributed, progress).go()
        distributed.wait()
    distributed.close()
    return progress


class Session:
    """One process's part in a training, from a checkpoint on."""

    def __init__(self, job: Job, distributed: Distributed, progress: Progress) -> None:
        self.job, self.distributed, self.progress = job, distributed, progress
        config = job.config
        self.epochs = Epochs(len(job.train.lengths), config.batch_size, config.seed, config.shuffle)
        steps = config.epochs * self.epochs.steps
        self.total = steps if config.max_steps is None else min(steps, config.max_steps)
        self.every = max(1, round(config.evaluate_every * self.epochs.steps))
        self.tokens = budget(config.tokens_per_batch, distributed.device)

    def go(self) -> None:
        """Take all remaining steps, with the evaluations and checkpoints that are due after each."""
        self._open()
        self._score_before()
        self.job.observer.began(self.total, self.progress.step)
        why = "all epochs done"
        while self.progress.step < self.total:
            self._step(self.progress.step)
            if self._due(self.every) and self.job.config.select_on != "none":
                self._evaluate()
                if exhausted(self.progress.evaluations, self.job.criterion, self.job.config.patience):
                    why = f"no improvement for {self.job.config.patience} evaluations"
                    break
            elif self._due(self.job.config.checkpoint_every or self.every):
                self._keep(self.progress.best)
        self._end(why)

    def _open(self) -> None:
        """Create or restore the network and its optimizer on the device."""
        self.distributed.seed(self.job.config.seed, 0)
        network, self.adapters = self._made()
        self.progress.parameters = sizes(network)  # before it is sharded
        checkpoint = self.job.folder.checkpoint(self.progress.step) if self.progress.step else None
        optimizer = partial(optimizer_of, config=self.job.config)
        self.network, self.optimizer = self.distributed.prepare(network, optimizer, checkpoint)
        if self.distributed.is_main:
            scored = self.progress.step > 0 or self.progress.before is not None
            self.job.folder.history(self.progress.step if scored else -1)

    def _made(self) -> tuple[Module, Adapters]:
        """Return a new network of the learner, and its adapters if the config asks for them."""
        network = self.job.learner.network()
        return network, with_adapters(network, self.job.config)

    def _due(self, every: int) -> bool:
        """Return whether an event is due that recurs every so many steps and at the end."""
        return self.progress.step % every == 0 or self.progress.step == self.total

    # ---- one step ---------------------------------------------------------------------------------------------------

    def _step(self, step: int) -> None:
        began = time.monotonic()
        config = self.job.config
        self.distributed.seed(config.seed, step + 1)
        self.network.train()
        lr = None if config.lr is None else config.lr * rate(step, self.total, config)
        set_rate(self.optimizer, lr)
        rows = self.epochs.rows(step)
        loss = self._descend(rows, step)
        read = sum(self.job.train.lengths[row] for row in rows)
        self.progress.step, self.progress.tokens = step + 1, self.progress.tokens + read
        seconds = time.monotonic() - began
        self.progress.seconds += seconds
        self._tell(loss, lr, read / seconds)

    def _descend(self, rows: Sequence[int], step: int) -> float:
        """Compute the gradient of a step, clip it and update the weights; return the mean loss before the update."""
        weight = sum(self.job.train.weights[row] for row in rows)
        total: Tensor | float = 0.0
        for losses, last in self._losses(self.job.train, rows, self.epochs.draw(step)):
            loss = losses * (self.distributed.processes / weight)
            total = total + loss.detach()
            if last:
                mean = self.distributed.mean(total)
                self._check(mean, rows, step)
            self.distributed.backward(loss)
        self.distributed.update(self.network, self.optimizer, self.job.config.clip)
        return mean

    def _losses(self, features: Features, rows: Sequence[int], draw: int) -> Iterator[tuple[Tensor, bool]]:
        """Yield, per call of the network, the sum of its losses and whether it is the last call of the step.

        Rows with shared inputs (candidates) go through in one call, since all of them need these inputs.
        """
        distributed = self.distributed
        parts = list(shares(rows, features.lengths, self.tokens, distributed.process, distributed.processes))
        beside = [distributed.on_device(batch) for batch in features.beside(rows)]
        calls = [parts] if beside else [[part] for part in parts]
        for number, call in enumerate(calls, start=1):
            batches = [distributed.on_device(features.batch(part.rows, draw)) for part in call]
            with distributed.syncing(self.network, number == len(calls)):
                losses = self.network(batches, beside)
                yield (losses * distributed.numbers(counts_of(call), losses)).sum(), number == len(calls)

    def _check(self, loss: float, rows: Sequence[int], step: int) -> None:
        if math.isfinite(loss):
            return
        kept = "no checkpoint was kept" if self.progress.best is None else f"step {self.progress.best} is kept"
        examples = ", ".join(self.job.ids[row] for row in rows[:5]) + (" …" if len(rows) > 5 else "")
        raise TrainError(
            f"the loss of step {step + 1} is {loss} (examples {examples}); the update was discarded, and {kept} in "
            f"{self.job.folder.traces}; lower --lr, or use --mixed_precision no"
        )

    def _tell(self, loss: float, lr: float | None, speed: float) -> None:
        progress = self.progress
        remaining = progress.seconds / progress.step * (self.total - progress.step)
        if self.distributed.is_main:
            self.job.folder.note(step=progress.step, loss=loss, lr=lr, tokens_per_second=round(speed))
        self.distributed.log({"loss": loss, "lr": lr or 0.0}, progress.step)
        self.job.observer.stepped(progress.step, loss, lr or 0.0, speed, remaining)

    # ---- evaluation and checkpoints ---------------------------------------------------------------------------------

    def _score_before(self) -> None:
        """Score the model before its first step, once; it is no candidate for the best checkpoint."""
        if self.progress.step or self.progress.before is not None or (self.job.dev is None and self.job.score is None):
            return
        self.job.observer.preparing(f"scoring {self.job.config.model} before training")
        self.progress.before = self._scores()
        if self.distributed.is_main:
            self.job.folder.note(step=0, scores=self.progress.before)
            self.job.folder.commit(self.progress)
        self._announce(self.progress.before, best=False)

    def _evaluate(self) -> None:
        """Score the current network and write a checkpoint."""
        scores = self._scores()
        evaluations = [*self.progress.evaluations, Evaluation(step=self.progress.step, scores=scores)]
        best = best_of(evaluations, self.job.criterion)
        self.progress.evaluations = evaluations
        if self.distributed.is_main:  # before the checkpoint: if that fails, resuming drops the note
            self.job.folder.note(step=self.progress.step, scores=scores)
        self._keep(None if best is None else best.step)
        self._announce(scores, best=self.progress.best == self.progress.step)

    def _announce(self, scores: Scores, *, best: bool) -> None:
        """Report scores on dev to the trackers and the observer."""
        known = {f"dev/{name}": value for name, value in scores.items() if value is not None}
        self.distributed.log(known, self.progress.step)
        self.job.observer.evaluated(self.progress.step, scores, best)

    def _scores(self) -> Scores:
        """Return the scores of the current network on dev, None for those that are not finite."""
        self.network.eval()
        scores: Scores = {}
        if self.job.dev is not None:
            scores[LOSS] = self.dev_loss(self.job.dev)
        if self.job.score is not None:
            whole = self.distributed.whole(self.network, lambda: self._made()[0])
            scores |= self.job.score(self.job.learner.backend(whole), self.distributed)
        return {name: value if value is not None and math.isfinite(value) else None for name, value in scores.items()}

    def dev_loss(self, dev: Features) -> float:
        """Return the mean loss on held-out examples, in float32, without new random numbers."""
        import torch

        rows = range(len(dev.lengths))
        size = self.job.config.batch_size
        total: Tensor | float = 0.0
        with torch.no_grad():
            for start in range(0, len(rows), size):
                total = total + sum(loss for loss, _ in self._losses(dev, rows[start : start + size], 0))
        return self.distributed.mean(total * (self.distributed.processes / sum(dev.weights)))

    def _keep(self, best: int | None) -> None:
        """Write a checkpoint."""
        job, progress = self.job, self.progress
        progress.best = best
        tensors = self.distributed.state(self.network, self.optimizer)
        weights = self.adapters.merged(self.distributed.weights(self.network))
        if self.distributed.is_main:
            module = self.distributed.unwrapped(self.network)
            job.folder.write_checkpoint(
                progress.step,
                lambda place: self._saved(module, weights, place),
                lambda place: self.distributed.write(tensors, place),
            )
            job.folder.commit(progress)
        self.distributed.wait()

    def _saved(self, module: Module, weights: Mapping[str, Tensor], place: Path) -> JSON:
        """Save the model and the digests of the examples that it has seen; return the content of figeval.json."""
        declared = self.job.learner.save(module, weights, place)
        if self.job.remember is not None:
            self.job.remember(place)
        return {**declared, "about": self.job.about(self.progress)}

    def _end(self, why: str) -> None:
        """Publish the chosen model at the top of the folder."""
        self.progress.complete, self.progress.why = True, why
        if self.distributed.is_main:
            chosen = self.progress.step if self.progress.best is None else self.progress.best
            self.job.folder.publish(chosen)
            self.job.folder.commit(self.progress)


def counts_of(parts: Sequence[Share]) -> list[float]:
    """Return 1 for each row of a call that counts, and 0 for each padding row."""
    return [count for part in parts for count in part.counts]
