"""Command line interface, with one module per command; heavy imports are inside the functions to keep it fast."""
