"""`figeval benchmark build storal`: the tasks of STORAL from a user's pairs of stories and morals.

README.md has the rules.

`command` holds the commands. `builder` makes the tasks stage by stage from the choices of `items`: wrong morals of
other `topics` (`negatives`), replaced words (`antonyms`, `versions`), beginnings and `outlines`. `frozen` makes the
items of the built-in tasks (`items/`) in the same way.
"""
