"""Examples → requests, outputs → predictions: the routes by which a kind of task can be put to a kind of model."""
