"""The packed engine, which computes log-likelihoods and reads every token that texts share only once.

| module | contents |
|---|---|
| `prefix_tree` | numpy only: requests as a tree of tokens in preorder |
| `reading_plan` | numpy only: *prefixes*, whose keys and values are kept, and the *rows* that follow them |
| `views` | which tokens a token of a row may attend to, as masks for models, and the strategies to try on a model |
| `bodies` | the two halves of a transformers model: its body with our keys and values, its head on chosen states |
| `packed` | the engine: executes a plan and collects log-probabilities |
| `self_test` | which strategy a model supports: by its architecture, and on this device in this precision |
| `small_copy` | a narrow copy of a model, of which the first question is asked in single precision |
| `judgement` | what rounding explains, by the distance from the scores in that precision |
| `verdicts` | the results of self-tests, kept for later runs |
| `separable` | which parts of a model can be run apart from the rest |
| `encoder_decoder` | the same for encoder-decoders: contexts once, continuations in batches |
"""
