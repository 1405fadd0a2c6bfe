"""Training examples near to a question: found by an embedding model, shown as solved examples or added to the input."""
