"""What a model wrote → an answer."""
