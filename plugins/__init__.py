"""Models, heads, exporters and the bridge to lm-eval.

Each folder is a family and one plugin, registered through the hooks that a third party uses.
"""
