"""From a task and a model to a trained model: splits, the loop, scores on dev, the record, the final evaluation."""
