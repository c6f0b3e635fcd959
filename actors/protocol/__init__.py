"""The words of the protocol: messages, events, addresses, limits and the values that they carry."""
