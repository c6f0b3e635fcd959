"""Models of OpenAI and of services that speak its APIs, through the model layer of pydantic-ai-slim.

The extra `callboard[models]` installs the layer. Modules of this package that import it at their top
(`layer`, `messages`, `parts`, `replies`, `failures`, `wire`) are imported at the first call, on a thread.
"""
