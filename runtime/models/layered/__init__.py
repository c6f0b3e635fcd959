"""Models of OpenAI and of services that speak its APIs, and of Google, through the layer of pydantic-ai-slim.

The extras `callboard[models]` and `callboard[gemini]` install the layer with the client of each service.
Modules of this package that import it at their top (`layer`, `messages`, `parts`, `replies`, `failures`,
`wire`, and `..._layer`) are imported at the first call, on a thread.
"""
