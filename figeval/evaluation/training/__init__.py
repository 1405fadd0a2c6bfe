"""Training of a model on a task: splits, training processes, scores on dev, the record, and the final evaluation."""
