"""The default store: one SQLite file, one owner, many readers."""
