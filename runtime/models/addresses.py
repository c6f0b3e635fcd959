"""Addresses of services."""

from urllib.parse import urlsplit

from callboard.actors.protocol.errors import MisuseError


def checked_url(base_url: str) -> str:
    """Return an address without a slash at its end. Raises MisuseError for text that is not an address."""
    if not base_url.startswith(("http://", "https://")):
        raise MisuseError(f"base_url={base_url!r} is not an address; begin it with http:// or https://")
    return base_url.rstrip("/")


def endpoint_of(base_url: str) -> str:
    """Return an address as the log may show it: without a name, a password and a query."""
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
