"""The transcripts of Claude Code."""
