"""Live sessions: the board that posts, the session a program holds, resuming from a log."""
