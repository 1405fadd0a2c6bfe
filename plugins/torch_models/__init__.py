"""Shared parts of models with weights on this machine: from a name to a loaded model, and from texts to batches.

| module | contents |
|---|---|
| `settings` | options from --model_args and the factory that checks them, for models of all families |
| `checkpoint` `files` | a model's files and their digest, the backend its config names, the model hub |
| `adapters` `adapter_patterns` `merging` | adapters of peft: their folders, and their merging into shared bases |
| `loading` | device, precision, weights, and `Neural`, the base class of all torch backends |
| `overlapping` `reading` | batches that are prepared while a device reads the ones before |
| `unpadded` `rows` | rows that an accelerator reads end to end, without padding, and the trial of that |
| `faults` | exceptions of model libraries in one line |
| `precision` | a model's passes in a higher precision than that of its weights |
| `tokens` `batching` `alone` | tokenized texts, batches of inputs of different lengths, texts encoded apart |

It registers nothing.
"""
