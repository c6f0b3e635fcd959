"""Sessions as files: a table of exporters by name, and the reader of `jsonl` files."""
