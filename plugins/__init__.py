"""Built-in models, heads, task types, metrics, exporters and the bridge to lm-eval.

Each folder is one plugin, registered through the same hooks that third-party plugins use.
"""
