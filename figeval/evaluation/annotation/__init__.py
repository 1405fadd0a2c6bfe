"""Written texts before people: sheets of stored texts whose authors are hidden, and what the filled-in sheets say."""
