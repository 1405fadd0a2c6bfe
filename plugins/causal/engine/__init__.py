"""The packed engine, which computes log-likelihoods and reads every token that texts share only once.

| module | contents |
|---|---|
| `prefix_tree` | numpy only: requests as a tree of tokens in preorder |
| `reading_plan` | numpy only: *prefixes*, whose keys and values are kept, and the *rows* that follow them |
| `views` | which tokens a token of a row may attend to, as masks for models, and the strategies to try on a model |
| `bodies` | the two halves of a transformers model: its body with our keys and values, its head on chosen states |
| `packed` | the engine: executes a plan and collects log-probabilities |
| `self_test` | which strategy a model supports, tested on a small sample against plain rows |
| `encoder_decoder` | the same for encoder-decoders: contexts once, continuations in batches |
"""
