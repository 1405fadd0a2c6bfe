"""The packed engine: log-likelihoods in which every token that texts share is read once.

| module | what it knows |
|---|---|
| `prefix_tree` | numpy only: requests as a tree of tokens in preorder |
| `reading_plan` | numpy only: *prefixes*, whose keys and values are kept, and *rows* that are read behind them |
| `views` | what a token of a row may see, as the masks that models take, and which strategies to try on a model |
| `bodies` | a transformers model in two halves: its body with keys and values of ours, its head on chosen states |
| `packed` | the engine: follows a plan, writes down log-probabilities |
| `self_test` | which strategy a model honours, tried on a small sample against plain rows |
| `encoder_decoder` | the same for encoder-decoders: contexts once, continuations in batches |
"""
