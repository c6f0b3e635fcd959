"""Models of OpenAI, of services that speak its APIs, of Google and of Amazon, through pydantic-ai-slim.

The extras `callboard[models]`, `[gemini]` and `[bedrock]` install that layer, each with a client.
Modules of this package that import it at their top (`layer`, `messages`, `parts`, `replies`, `failures`,
`wire`, `askable`, `aws_events`, `..._layer`) are imported while a runtime or a session opens, on a thread.
"""
