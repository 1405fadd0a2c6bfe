"""Read what a model wrote: the answer that a reply commits itself to, if any."""
