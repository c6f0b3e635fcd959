"""Anthropic's Messages API as a model, through the official SDK."""
