"""Parts that differ between languages: words, their forms, tags, and when two texts ask the same."""
