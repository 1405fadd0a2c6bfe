"""A task in Python: examples that are made rather than read."""

from figeval import PairExample, task

# What is compared, the quality named, its opposite, and whether the simile means the opposite.
SIMILES = (
    ("a feather", "light", "heavy", False),
    ("a brick", "light", "heavy", True),
    ("mud", "clear", "confusing", True),
    ("a bell", "clear", "confusing", False),
    ("a snail", "fast", "slow", True),
    ("an arrow", "fast", "slow", False),
    ("a brick wall", "talkative", "silent", True),
    ("a magpie", "talkative", "silent", False),
)


@task(
    name="acme_similes",
    type="pairs",
    labels=("follows", "does not follow"),
    verbalizer={"follows": "Yes", "does not follow": "No"},
    cluster="quality",
    metrics=("acc", "balanced_acc"),
    baselines=("chance", "majority", "overlap"),
)
def acme_similes():
    """Earnest and ironic similes: is the sentence meant literally?"""
    for vehicle, quality, opposite, ironical in SIMILES:
        for claim, follows in ((quality, not ironical), (opposite, ironical)):
            yield PairExample(
                id=f"{vehicle}, {claim}",
                left=f"It is about as {quality} as {vehicle}.",
                right=f"It is {claim}.",
                label="follows" if follows else "does not follow",
                meta={"quality": quality},
                cluster=quality,
            )
