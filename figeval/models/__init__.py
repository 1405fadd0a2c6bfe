"""The capabilities of models, and the batching of requests of many examples."""
