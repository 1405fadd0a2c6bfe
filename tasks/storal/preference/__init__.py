"""Value preference: the moral of a story compared with versions in which a synonym or an antonym replaces a word."""
