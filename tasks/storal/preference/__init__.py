"""Value preference: the moral of a story against versions of it in which a synonym and an antonym replace a word."""
