"""Task types and their routes, which turn examples into requests and a model's outputs into predictions."""
