"""`figeval benchmark build impli-pairs`: pairs of IMPLI's kinds from a user's sentences and definitions.

README.md has the rules.

`command` holds the command. `builder` makes the pairs, kind by kind, from the rows that `inputs` reads: `phrases`
determines the part of speech of idioms and definitions, `sites` locates an idiom in its sentence, `substitution` puts a
definition in its place, and `wrong` chooses wrong definitions and antonyms.
"""
