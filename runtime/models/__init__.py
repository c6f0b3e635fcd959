"""Models: the protocol, the scripted one for tests and demos, and Anthropic's."""
