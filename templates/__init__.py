"""Prompts: `<benchmark>/<task>.<language>.jinja`."""
