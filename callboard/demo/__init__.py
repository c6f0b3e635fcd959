"""The demonstration: scripted agents that explain a real folder, with real tools."""
