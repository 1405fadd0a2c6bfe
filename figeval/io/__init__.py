"""Reading and writing: files, JSON, YAML, texts that are safe to store and print, sandboxed templates."""
