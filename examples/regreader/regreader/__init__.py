"""A reader of regulations: an importer, an index, ten tools, and the specialists that use them."""
