"""The local page on which people judge items: `figeval annotate serve`."""
