"""A metric: a function of one example and one prediction; figeval averages it and puts an interval around it."""


def margin(example, prediction):
    """How much higher the right option scored than the best wrong one; None where there is nothing to compare."""
    if example.gold is None or prediction.status != "ok" or len(prediction.scores) < 2:
        return None
    gold = prediction.scores[example.gold]
    return gold - max(score for index, score in enumerate(prediction.scores) if index != example.gold)
