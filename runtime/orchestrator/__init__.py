"""A host without a model: it analyses a question, routes it to specialists, and merges their answers."""
