"""The local page on which people judge texts."""
