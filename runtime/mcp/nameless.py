"""Errors that name no request: which request each of them answers.

A server that cannot read a request does not know its id, so JSON-RPC lets it answer with an error whose id is
null. Such an error answers one of the messages that were open when it came, and it waits here until the
others are out of the question:

a request               open until it is answered
a notification          open until a request that was sent after it is answered, since some servers answer
                        notifications with errors
a request given up      the same, counted from there: a server does not answer it after its cancellation

As many errors as messages that they can mean answer all of these. An error whose requests were all answered
by their ids was meant for none of them, and is dropped. One that may have meant a notification stays in doubt
while a request is open that it may mean, too.
"""

from typing import Any


class NamelessErrors:
    """The errors without an id of one connection, and the messages that are open."""

    def __init__(self) -> None:
        self._sent = 0
        self._requests: dict[object, int] = {}  # by id: the place among all that were sent
        self._others: set[int] = set()  # the places of notifications, and of requests that were given up
        self._errors: list[tuple[object, set[int]]] = []  # with the places that each may answer

    def sent(self, request: object = None) -> None:
        """Note a message that leaves. request: its id, None for a notification."""
        self._sent += 1
        if request is None:
            self._others.add(self._sent)
        else:
            self._requests[request] = self._sent

    def answered(self, request: object) -> list[tuple[Any, object]]:
        """Note an answer that has an id. Return the requests that errors now answer, with those errors."""
        place = self._requests.pop(request, 0)
        self._others = {one for one in self._others if one > place}
        self._leave_out({place})
        return self._settled()

    def given_up(self, request: object) -> object:
        """Note that a request waits no longer. Return an error that may have been its answer, else None."""
        place = self._requests.pop(request, 0)
        self._sent += 1
        self._others.add(self._sent)
        found = None
        for error, places in self._errors:
            if place in places:
                found = error
                places.add(self._sent)
        self._leave_out({place})
        return found

    def came(self, error: object) -> list[tuple[Any, object]]:
        """Take an error without an id. Return the requests that errors now answer, with those errors."""
        self._errors.append((error, {*self._requests.values(), *self._others}))
        self._leave_out(set())
        return self._settled()

    def _leave_out(self, answered: set[int]) -> None:
        """Take answered messages out of the question, and errors that can mean no open request any more."""
        open_ = set(self._requests.values())
        self._errors = [
            (error, left) for error, places in self._errors if (left := places - answered) & open_
        ]

    def _settled(self) -> list[tuple[Any, object]]:
        """Take the requests out that errors must mean. Return them, with the errors in their order."""
        found: list[tuple[Any, object]] = []
        while self._errors:
            meant = min((places for _, places in self._errors), key=len)
            if len(meant) > 1:
                meant = set().union(*(places for _, places in self._errors))
            errors = [error for error, places in self._errors if places <= meant]
            if len(errors) < len(meant):
                break
            requests = {place: request for request, place in self._requests.items()}
            for place, error in zip(sorted(meant), errors, strict=False):
                if place in requests:
                    found.append((requests[place], error))
                    del self._requests[requests[place]]
            self._leave_out(meant)
        return found
