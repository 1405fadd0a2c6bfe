"""What stored runs say proverb by proverb: `figeval diagnose`."""
