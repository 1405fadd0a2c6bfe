"""`figeval build storal`: the tasks of STORAL from anybody's pairs of stories and morals. BUILD.md has the rules.

`command` is the command; `builder` makes the tasks stage by stage, with what `items` chooses: wrong morals of other
`topics` (`negatives`), replaced words (`antonyms`), beginnings and `outlines`. `frozen` makes the items of `items/` so.
"""
