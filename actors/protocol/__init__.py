"""The words of the protocol: messages, events, addresses, limits and the values that they carry.

A message is a frozen struct, of one class for each kind. A post is a message and its recipient. The board
gives it an envelope, and it is an event: seq, time, sender, recipient, cause. Messages are stored as JSON,
and every later version reads them: a field is added with a default and never renamed. Foreign JSON is held as
its own bytes.
Nothing in this part decides anything: it has values, tables, and pure functions of them.

  Messages
    messages, client_messages, port_messages    all kinds, by sender and recipient
    step_messages, wishes                       the steps of programs, and all requests for turns
    events, addresses, endings                  the envelope, the names of actors, the kinds of ends
    immutable, intmap, plain_values             structs and maps that never change, and their plain form
    codec, upcasters, kept_bodies               how a message is stored, and read from older formats
    value_types, errors, failures               the values in messages; exceptions; failed model calls

  Agents
    profiles, limits, usage, token_estimates    what an agent is, may use, and has used
    contracts, folded_results                   agents that are called as tools
    prompts, money, near_names                  what callboard says to a model; amounts, and near names
    shared_state, telemetry, effects            what tools declare, write and tell

  Conversations
    conversation, blocks, media, request        messages of a model, and the whole request
    makers, origin, translation, spoken_calls   who made a message, and how another model reads it
    repairs, repair_levels, histories           what a service takes back; conversations that are handed on
    compaction_messages                         conversations that become shorter

  Rights
    bundles, bundle_entries, layers             what an agent and those below it may use
    labels, uses, refusals, file_area           provenance, the rights that were used, the words of a refusal
    file_versions                               the versions of files that calls wrote and found
"""
