"""Retrieval of the training examples nearest to a question, to show as few-shot examples or to add to the input."""
