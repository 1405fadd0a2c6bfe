"""Diagnosis of stored runs, proverb by proverb: `figeval diagnose`."""
