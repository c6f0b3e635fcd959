"""What tools return: one format for models, for programs and for people."""
