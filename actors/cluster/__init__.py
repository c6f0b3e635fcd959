"""The rules by which several workers share the sessions and the capacity of one log. No I/O, no clock.

    leases    how long a worker may act, and when another one may take its sessions
    claims    which waiting sessions a worker takes next, and what a session waits for
    shares    the places of a model's capacity that each worker has

Times come in arguments. A worker measures its own lease with a clock that is never set, and the server
measures all leases with its own: no rule compares times of two machines. A lease decides only who should act.
That no other can write is decided by the log, which compares epoch, head and digest in each append.
"""
