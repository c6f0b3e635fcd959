"""callboard: an event-sourced actor runtime for LLM agents."""
