"""Exceptions as text. They come from users' code, where even `str(error)` can raise."""


def failure_text(error: BaseException) -> str:
    """Return the class and the message of an exception. Never raises.

    >>> failure_text(ValueError("wrong"))
    'ValueError: wrong'
    """
    name, message = type(error).__name__, text_of(error)
    return f"{name}: {message}" if message else name


def text_of(value: object) -> str:
    """Return `str(value)`, or a sentence that says that there is no text. Never raises."""
    try:
        return str(value)
    except BaseException:  # SystemExit too: in a callback of the event loop it would end the loop
        return "its message cannot be read"
