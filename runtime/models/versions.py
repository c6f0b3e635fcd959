"""The libraries that make the body of a request, with their versions."""

from functools import cache


@cache
def made_by(*libraries: str) -> str:
    """Return the names and versions of callboard and of the libraries that make a request."""
    from importlib.metadata import version  # 20 ms that programs without a model never need

    return ", ".join(f"{name} {version(name)}" for name in ("callboard", *libraries))
