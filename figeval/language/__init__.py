"""What differs between languages: words, their forms, tags, and when two texts ask the same."""
