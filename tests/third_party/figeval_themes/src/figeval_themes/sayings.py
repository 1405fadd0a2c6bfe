"""A task in Python: sayings, and what they are about."""

from figeval import task
from figeval_themes.labelling import ThemesExample

LABELS = ("patience", "greed", "pride", "friendship")
SAYINGS = (
    ("The slow river reaches the sea all the same.", ("patience",)),
    ("Who counts the apples on the tree will curse the wind.", ("patience", "greed")),
    ("The tallest rooster is the first in the pot.", ("pride",)),
    ("A full purse has many cousins.", ("greed", "friendship")),
    ("Two under one umbrella both get wet, and neither minds.", ("friendship",)),
    ("The peacock hears no music but its own.", ("pride",)),
    ("Bread that is hurried is eaten raw.", ("patience",)),
    ("He who wants the whole well drowns in it.", ("greed",)),
    ("A crown leaves no room for another's hand on your shoulder.", ("pride", "friendship")),
    ("It rains on every roof.", ()),
    ("An old friend knows the way in the dark.", ("friendship",)),
    ("The gold ring slips off the finger that grasps.", ("greed", "pride")),
)


@task(name="themes_sayings", type="themes", labels=LABELS, settings={"threshold": 0.1})
def themes_sayings():
    """What are these sayings about?"""
    for number, (saying, themes) in enumerate(SAYINGS, start=1):
        yield ThemesExample(id=str(number), text=saying, themes=frozenset(themes))
