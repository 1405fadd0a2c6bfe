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
from typing import TYPE_CHECKING, cast

from figeval import JSON, Batch, Features, Learner, Observer, TrainError
from figeval.models.devices import attempt, is_exhausted
from figeval.wings.training.adapters import Adapters, add_adapters, check_adapter_file, count_head
from figeval.wings.training.batch_plans import (
    TOKENS_ON_ACCELERATOR,
    BatchPlan,
    Epochs,
    Share,
    SimilarLengths,
    divide_rows,
    token_budget,
)
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.distributed import Distributed, count_weights, write_state
from figeval.wings.training.pass_cost import (
    LESS_TO_UPDATE,
    Gauge,
    PassCost,
    StepWork,
    bytes_of_moments,
    fit_costs,
    halve_tokens,
    measure_steps,
    tokens_in_memory,
)
from figeval.wings.training.selection import LOSS, Evaluation, SelectionCriterion, best_evaluation, is_stalled
from figeval.wings.training.train_folder import Progress, TrainFolder

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

Scores = dict[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
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
    criterion: SelectionCriterion
    folder: TrainFolder
    observer: Observer
    about: Callable[[Progress], JSON]
    write_lineage: Callable[[Path], None] | None = None
    data: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    dev: Features | None = None
    score: Callable[[object, Distributed], Scores] | None = None


def train(job: TrainingJob, distributed: Distributed) -> Progress:
    """Train to the end, from the last checkpoint if there is one, and put the chosen model at the top of the folder.

    Raises:
        TrainError: the loss is not finite, or the folder belongs to another training.
    """
    with job.folder.locked() if distributed.is_main else nullcontext():
        progress = job.folder.begin(job.config, job.data, job.prompts) if distributed.is_main else None
        progress = cast("Progress", distributed.broadcast(progress))
        if not progress.complete:
            TrainingSession(job, distributed, progress).run()
        distributed.wait()
    distributed.close()
    return progress


class TrainingSession:
    """One process's part in a training, from a checkpoint on."""

    def __init__(self, job: TrainingJob, distributed: Distributed, progress: Progress) -> None:
        self.job, self.distributed, self.progress = job, distributed, progress
        config = job.config
        self.epochs = Epochs(len(job.train.lengths), config.batch_size, config.seed, config.shuffle)
        steps = config.epochs * self.epochs.steps
        self.total = steps if config.max_steps is None else min(steps, config.max_steps)
        self.interval = max(1, round(config.evaluate_every * self.epochs.steps))
        self.plan: BatchPlan = SimilarLengths(token_budget(config.tokens_per_batch, distributed.device))

    def run(self) -> None:
        """Take all remaining steps, with the evaluations and checkpoints that are due after each."""
        if not self._end_reason:
            self._prepare_network()
            self._score_before()
        if step := self.progress.step:
            self.job.observer.say(f"continuing from step {step} of {self.total}")
        self.job.observer.start("training", self.total, step, unit="step")
        while not self._end_reason:
            self._step(self.progress.step)
            if self._is_due(self.interval) and self.job.config.select_on != "none":
                self._evaluate()
            elif self._is_due(self.job.config.checkpoint_every or self.interval):
                self._write_checkpoint(self.progress.best)
        self.job.observer.end()
        self._finish(self._end_reason)

    @property
    def _end_reason(self) -> str:
        """Why no steps remain; empty as long as some do."""
        if is_stalled(self.progress.evaluations, self.job.criterion, self.job.config.patience):
            return f"no improvement for {self.job.config.patience} evaluations"
        return "all epochs done" if self.progress.step >= self.total else ""

    def _prepare_network(self) -> None:
        """Create or restore the network and its optimizer on the device."""
        from figeval.wings.training.optimizers import optimizer_of  # which imports torch

        self.distributed.seed(self.job.config.seed, 0)
        network, self.adapters, head = self._make_network()
        self.progress.parameters = count_weights(network) | ({} if head is None else {"head": head})  # before sharding
        checkpoint = self.job.folder.checkpoint_folder(self.progress.step) if self.progress.step else None
        optimizer = partial(optimizer_of, config=self.job.config, fused=self.distributed.device.startswith("cuda"))
        self.network, self.optimizer = self.distributed.prepare(network, optimizer, checkpoint)
        if self.distributed.gauge is not None:
            self._set_cost(self._stored_cost() or self._measure_cost(self.distributed.gauge))
        if self.distributed.is_main:
            has_scores = self.progress.step > 0 or self.progress.before is not None
            self.job.folder.truncate_history(self.progress.step if has_scores else -1)

    def _make_network(self) -> tuple[Module, Adapters, int | None]:
        """Return the network, its adapters, and the number of weights in its head."""
        network = self.job.learner.network()
        head = count_head(network)
        return network, add_adapters(network, self.job.config), head

    def _is_due(self, interval: int) -> bool:
        """Return whether an event is due that recurs every so many steps and at the end."""
        return self.progress.step % interval == 0 or self.progress.step == self.total

    # ---- what a pass costs ------------------------------------------------------------------------------------------

    def _set_cost(self, cost: PassCost) -> None:
        """Divide the steps from now on into the passes that are cheapest at this cost."""
        self.progress.cost = cost
        tokens = self.job.config.tokens_per_batch or cost.tokens
        self.plan = cost.plan(tokens)

    def _stored_cost(self) -> PassCost | None:
        """Return what a pass costs if it was measured before on the same devices, so that the passes stay the same."""
        cost, hardware = self.progress.cost, self.distributed.hardware
        return cost if cost is not None and cost.device == hardware else None

    def _measure_cost(self, gauge: Gauge) -> PassCost:
        """Measure what a pass costs, in all processes together; that of the main process counts.

        Raises:
            TrainError: memory runs out, and the processes cannot try again with smaller passes.
        """
        self.job.observer.wait("measuring what a pass costs")
        config, lengths, distributed = self.job.config, self.job.train.lengths, self.distributed
        rows = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)[: config.batch_size]
        buffers = [(buffer, buffer.clone()) for buffer in self.network.buffers()]
        largest = max(1, lengths[rows[0]]) * -(-len(rows) // distributed.processes)
        tokens = config.tokens_per_batch or TOKENS_ON_ACCELERATOR
        measure = partial(measure_steps, gauge, partial(self._run_trial, rows))
        while (measurements := attempt(partial(measure, tokens, largest))) is None:
            repeatable = distributed.repeatable and not config.tokens_per_batch
            tokens = halve_tokens(min(tokens, largest), lengths[rows[0]], repeatable=repeatable)
        free = self._free_memory(gauge) if distributed.sharding.disposable else None
        distributed.discard_gradients(self.network)
        for buffer, original in buffers:
            buffer.copy_(original)
        per_pass, per_token = fit_costs(measurements)
        default = TOKENS_ON_ACCELERATOR if config.tokens_per_batch else tokens
        fitting = tokens_in_memory(measurements, free, lengths[rows[0]], default)
        cost = PassCost(
            seconds_per_pass=per_pass,
            seconds_per_token=per_token,
            tokens=min(distributed.gather([fitting])),
            device=distributed.hardware,
            padding=not any(getattr(module, "reads_without_padding", False) for module in self.network.modules()),
        )
        return distributed.broadcast(cost)

    def _free_memory(self, gauge: Gauge) -> int | None:
        """Return the bytes that gradients leave free and the optimizer will not need; None if they are not known."""
        free, moments = gauge.free_memory(), bytes_of_moments(self.optimizer)
        if free is None or free > moments:
            return None if free is None else free - moments
        memory = f"{moments / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free"
        self.job.observer.warn(f"the optimizer's moments need {memory}; if memory runs out, {LESS_TO_UPDATE}")
        return None

    def _run_trial(self, rows: Sequence[int], plan: BatchPlan) -> StepWork:
        """Take a step without an update; its gradients are to be thrown away.

        Every step seeds its own random numbers, so those that are drawn here change nothing.
        """
        import torch

        features = self.job.train
        self.distributed.seed(self.job.config.seed, 1)
        self.network.train()
        parts, shared = self._divide(features, rows, plan)
        disposable = self.distributed.sharding.disposable
        with torch.set_grad_enabled(disposable), self.distributed.shared_casts():
            for losses, _ in self._losses(features, parts, shared, self.epochs.draw(0), last=False):
                if disposable:
                    self.distributed.backward(losses)
        return _step_work(features, parts, shared)

    # ---- one step ---------------------------------------------------------------------------------------------------

    def _step(self, step: int) -> None:
        start = time.monotonic()
        config = self.job.config
        self.distributed.seed(config.seed, step + 1)
        self.network.train()
        lr = config.learning_rate(step, self.total)
        if lr is not None:  # otherwise Adafactor keeps its own
            for group in self.optimizer.param_groups:
                group["lr"] = lr
        rows = self.epochs.rows(step)
        loss = self._descend(rows, step)
        tokens = sum(self.job.train.lengths[row] for row in rows)
        self.progress.step, self.progress.tokens = step + 1, self.progress.tokens + tokens
        seconds = time.monotonic() - start
        self.progress.seconds += seconds
        self._report_step(loss, lr, tokens / seconds)

    def _descend(self, rows: Sequence[int], step: int) -> float:
        """Compute the gradient of a step, clip it and update the weights; return the mean loss before the update.

        If memory runs out, what a pass may read is halved and the step taken again.
        """
        while (mean := attempt(partial(self._gradient, rows, step))) is None:
            self._halve_passes(self.job.train, rows)
            self.distributed.seed(self.job.config.seed, step + 1)
        self._update(step)
        return mean

    def _update(self, step: int) -> None:
        """Update the weights by the gradient of a step. An update that has begun cannot be repeated.

        Raises:
            TrainError: memory runs out.
        """
        try:
            self.distributed.update(self.network, self.optimizer, self.job.config.clip)
        except (RuntimeError, MemoryError) as error:
            if not is_exhausted(error):
                raise
            raise TrainError(
                f"memory ran out when step {step + 1} updated the weights, and {self._remains}; {LESS_TO_UPDATE}"
            ) from error

    def _gradient(self, rows: Sequence[int], step: int) -> float:
        """Compute the gradient of a step; return the mean loss."""
        features = self.job.train
        parts, shared = self._divide(features, rows, self.plan)
        weight = sum(features.weights[row] for row in rows)
        total: Tensor | float = 0.0
        with self.distributed.shared_casts():
            for losses, last in self._losses(features, parts, shared, self.epochs.draw(step)):
                loss = losses * (self.distributed.processes / weight)
                total = total + loss.detach()
                if last:
                    mean = self.distributed.mean(total)
                    self._check_loss(mean, rows, step)
                self.distributed.backward(loss)
        if self.progress.passes or not self.progress.step:  # otherwise an older figeval did not count the first steps
            self.progress.passes += len(parts) + len(shared)
        return mean

    def _halve_passes(self, features: Features, rows: Sequence[int]) -> None:
        """Halve what a pass may read, after memory ran out in a pass of these rows.

        Raises:
            TrainError: they cannot be read again, or the size of passes was configured.
        """
        self.distributed.discard_gradients(self.network)
        cost = self.progress.cost
        longest = max(features.lengths[row] for row in rows)
        work = _step_work(features, *self._divide(features, rows, self.plan))
        repeatable = self.distributed.repeatable and not self.job.config.tokens_per_batch and cost is not None
        learning = features is self.job.train
        half = halve_tokens(min(work.peak_tokens, self.plan.tokens), longest, repeatable=repeatable, learning=learning)
        assert cost is not None  # otherwise the step is not repeatable
        self._set_cost(cost.model_copy(update={"tokens": half}))

    def _divide(self, features: Features, rows: Sequence[int], plan: BatchPlan) -> tuple[list[Share], list[Batch]]:
        """Return this process's batches of a step and the inputs that these share, as a plan divides both."""
        if hasattr(features, "plan"):
            features.plan = plan
        distributed = self.distributed
        parts = list(divide_rows(rows, features.lengths, plan, distributed.process, distributed.processes))
        return parts, features.beside(rows)

    def _losses(
        self, features: Features, parts: Sequence[Share], shared: Sequence[Batch], draw: int, *, last: bool = True
    ) -> Iterator[tuple[Tensor, bool]]:
        """Yield, per call of the network, the sum of its losses and whether it is the last call of the step.

        Rows with shared inputs (candidates) go through in one call, since all of them need these inputs. Without
        `last`, no call is the last one, after which the processes would exchange gradients.
        """
        distributed = self.distributed
        shared_inputs = [distributed.move_batch(batch) for batch in shared]
        calls = [parts] if shared_inputs else [[part] for part in parts]
        for number, call in enumerate(calls, start=1):
            batches = [distributed.move_batch(features.batch(part.rows, draw)) for part in call]
            ends = last and number == len(calls)
            with distributed.syncing(self.network, ends):
                losses = self.network(batches, shared_inputs)
                yield (losses * distributed.make_tensor(_row_counts(call), losses)).sum(), ends

    def _check_loss(self, loss: float, rows: Sequence[int], step: int) -> None:
        if math.isfinite(loss):
            return
        examples = ", ".join(self.job.ids[row] for row in rows[:5]) + (" …" if len(rows) > 5 else "")
        raise TrainError(
            f"the loss of step {step + 1} is {loss} (examples {examples}); the update was discarded, and "
            f"{self._remains}; lower --lr, or use --mixed_precision no"
        )

    @property
    def _remains(self) -> str:
        """The checkpoint that remains of a training that ends by an error, and its folder."""
        best = self.progress.best
        checkpoint = "no checkpoint was kept" if best is None else f"step {best} is kept"
        return f"{checkpoint} in {self.job.folder.traces}"

    def _report_step(self, loss: float, lr: float | None, speed: float) -> None:
        progress = self.progress
        if self.distributed.is_main:
            self.job.folder.append_history(step=progress.step, loss=loss, lr=lr, tokens_per_second=round(speed))
        self.distributed.log({"loss": loss, "lr": lr or 0.0}, progress.step)
        self.job.observer.reach(progress.step, {"loss": loss, "tokens/s": speed})

    # ---- evaluation and checkpoints ---------------------------------------------------------------------------------

    def _score_before(self) -> None:
        """Score the model before its first step, once; it is no candidate for the best checkpoint."""
        if self.progress.step or self.progress.before is not None or (self.job.dev is None and self.job.score is None):
            return
        self.job.observer.wait(f"scoring {self.job.config.model} before training")
        self.progress.before = self._compute_scores()
        if self.distributed.is_main:
            self.job.folder.append_history(step=0, scores=self.progress.before)
            self.job.folder.commit(self.progress)
        self._announce(self.progress.before, best=False)

    def _evaluate(self) -> None:
        """Score the current network and write a checkpoint."""
        scores = self._compute_scores()
        evaluations = [*self.progress.evaluations, Evaluation(step=self.progress.step, scores=scores)]
        best = best_evaluation(evaluations, self.job.criterion)
        self.progress.evaluations = evaluations
        if self.distributed.is_main:  # before the checkpoint: if that fails, resuming drops the note
            self.job.folder.append_history(step=self.progress.step, scores=scores)
        self._write_checkpoint(None if best is None else best.step)
        self._announce(scores, best=self.progress.best == self.progress.step)

    def _announce(self, scores: Scores, *, best: bool) -> None:
        values = {f"dev/{name}": value for name, value in scores.items() if value is not None}
        self.distributed.log(values, self.progress.step)
        texts = (f"{name} {'–' if value is None else f'{value:.4f}'}" for name, value in scores.items())
        note = " (best so far)" if best else "" if self.progress.step else " (before training)"
        self.job.observer.say(f"step {self.progress.step}: {', '.join(texts)}{note}")

    def _compute_scores(self) -> Scores:
        """Return the scores of the current network on dev, None for those that are not finite."""
        self.network.eval()
        scores: Scores = {}
        if self.job.dev is not None:
            scores[LOSS] = self.dev_loss(self.job.dev)
        if self.job.score is not None:
            network = self.distributed.runnable_network(self.network, lambda: self._make_network()[0])
            scores |= self.job.score(self.job.learner.backend(network), self.distributed)
        return {name: value if value is not None and math.isfinite(value) else None for name, value in scores.items()}

    def dev_loss(self, dev: Features) -> float:
        """Return the mean loss on held-out examples, in float32, without new random numbers.

        If memory runs out, what a pass may read is halved, also for the steps that follow.
        """
        everything = range(len(dev.lengths))
        size = self.job.config.batch_size
        total: Tensor | float = 0.0
        for start in range(0, len(everything), size):
            rows = everything[start : start + size]
            while (loss := attempt(self._sum_losses, dev, rows)) is None:
                self._halve_passes(dev, rows)
            total = total + loss
        return self.distributed.mean(total * (self.distributed.processes / sum(dev.weights)))

    def _sum_losses(self, features: Features, rows: Sequence[int]) -> Tensor | float:
        """Return the sum of this process's losses on some examples."""
        import torch

        with torch.no_grad():
            parts, shared = self._divide(features, rows, self.plan)
            return sum(loss for loss, _ in self._losses(features, parts, shared, 0))

    def _write_checkpoint(self, best: int | None) -> None:
        """Write a checkpoint, with the state for resuming unless no steps remain."""
        job, progress = self.job, self.progress
        progress.best = best
        tensors = None if self._end_reason else self.distributed.state(self.network, self.optimizer)
        weights = self.distributed.weights(self.network, tensors)
        if not job.config.lora_unmerged:
            weights = self.adapters.merge(weights)
        if self.distributed.is_main:
            module = self.distributed.unwrapped(self.network)
            job.folder.write_checkpoint(
                progress.step,
                partial(self._save_model, module, weights),
                None if tensors is None else partial(write_state, tensors),
            )
            job.folder.commit(progress)
        self.distributed.wait()

    def _save_model(self, module: Module, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Save the model and the digests of the examples that it has seen; return the content of figeval.json."""
        declaration = self.job.learner.save(module, weights, folder)
        if self.job.config.lora_unmerged:
            check_adapter_file(folder, self.job.config.head)
        if self.job.write_lineage is not None:
            self.job.write_lineage(folder)
        return {**declaration, "about": self.job.about(self.progress)}

    def _finish(self, reason: str) -> None:
        """Publish the chosen model at the top of the folder."""
        self.progress.complete, self.progress.end_reason = True, reason
        if self.distributed.is_main:
            self.job.folder.publish(self.progress.step if self.progress.best is None else self.progress.best)
            self.job.folder.commit(self.progress)


def _row_counts(parts: Sequence[Share]) -> list[float]:
    """Return 1 for each row of a call that counts, and 0 for each padding row."""
    return [count for part in parts for count in part.counts]


def _step_work(features: Features, parts: Sequence[Share], shared: Sequence[Batch]) -> StepWork:
    """Return the work on a process's batches and on the inputs that these share, for which all are in one call."""
    tokens = [len(part.rows) * max(1, *map(features.lengths.__getitem__, part.rows)) for part in parts]
    total = sum(tokens) + sum(max(tensor.numel() for tensor in batch.values()) for batch in shared)
    return StepWork(passes=len(parts) + len(shared), tokens=total, peak_tokens=total if shared else max(tokens))
