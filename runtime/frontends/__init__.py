"""Sessions in the protocols that web front ends read: a pure fold, one mapper a protocol, one driver.

    facts.py         what a person sees of a session, as facts: the fold of its stream
    front_end.py     a request of a client, the answer to it, and the driver between session and mapper
    prompts.py       the prompts that clients send: texts, images and files
    ag_ui.py         AG-UI, events of https://docs.ag-ui.com (protocol 1.0)
    ui_messages.py   the UI message stream of Vercel's AI SDK (version 7)

A thread or chat of a client is a session, and the id of its newest user message is the request id of the ask.
So a message that a client sends twice is asked once, and everything else that it sends along is ignored: the
log is the truth.
"""
