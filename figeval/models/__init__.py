"""The capabilities of models, and the batching of requests from a window of examples."""
