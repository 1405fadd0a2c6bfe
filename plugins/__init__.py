"""Models and exporters: each module is one plugin, registered through the hooks that a third party uses."""
