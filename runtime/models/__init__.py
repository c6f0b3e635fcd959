"""Models: the protocol, the providers by name, the scripted model, and Anthropic's."""
