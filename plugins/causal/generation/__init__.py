"""Generation: many prompts together, of which each gets the text that it gets alone.

| module | contents |
|---|---|
| `row` | a prompt and the text that continues it: thinking, answer, and what ends them |
| `thinking` | by which marks models set their thinking apart, and how chat templates switch it |
| `grammar` | formats of answers, as tokens that may follow |
| `sampling` | tokens drawn with random numbers of the request's own |
| `prefixes` | numpy only: which prompts begin alike, and what of them is read once |
| `row_cache` | keys and values of all rows, in buffers in which rows come and go |
| `decoder` | the loop: reads waiting prompts, writes a token of every row, and lets ended rows leave |
| `self_test` | which writer a model supports |
| `trials` | what decides it: the scores of rows of a batch beside those of plain passes, and a planted fault |
| `whole_batches` | for all other models: transformers' own loop, in which no row leaves before the last has ended |
| `attention` | attention of one token per row without copies of its keys, on accelerators |
| `ways` | the ways of writing on an accelerator: own decoding and those of transformers |
| `continuous` | transformers' continuous batching as one of them |
| `fastest` | which way is the fastest, measured on the texts that are asked for |
"""
