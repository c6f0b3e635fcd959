"""The demonstration: real tools on a real folder, and scripted agents that act on what the tools return."""
