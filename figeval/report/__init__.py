"""Files → tables and progress for people."""
