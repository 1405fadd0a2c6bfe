"""Measurements on a GPU, all in one go: `python -m bench.gpu`.

| module | contents |
|---|---|
| `__main__` | the command: runs every part in a process of its own and stores what it measured |
| `parts` | the parts by name |
| `machine` | the device: its rates and its memory |
| `shapes` | models of known shapes with random weights, and tokenizers for them |
| `log_likelihoods` | the packed engine beside lm-eval's `hf` |
| `encoding` | an encoder's throughput, as a share of the device's rate, and its memory when batches are halved |
| `training` | fine-tuning an encoder: the share of the device's rate that the model uses |
| `generation` | tokens written per second, beside vLLM if it is installed |
"""
