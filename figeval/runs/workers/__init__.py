"""Workers that share the examples of a run: processes of this machine, or actors on a Ray cluster."""
