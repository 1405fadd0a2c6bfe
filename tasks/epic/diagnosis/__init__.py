"""Diagnosis of stored runs, proverb by proverb: `figeval benchmark diagnose`."""
