"""`figeval build impli-pairs`: pairs of IMPLI's kinds from anybody's sentences and definitions. BUILD.md has the rules.

`command` is the command; `builder` makes the pairs, kind by kind, of what `inputs` reads: `phrases` says what part of
speech an idiom and a definition are, `sites` where an idiom stands, `substitution` puts a definition in its place,
`wrong` chooses wrong definitions and antonyms.
"""
