"""Published numbers with their source, our own measured runs, and the schema of the files figeval writes."""
