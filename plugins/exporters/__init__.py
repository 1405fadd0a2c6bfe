"""What a finished run can be turned into: one module per format."""
