"""Where events are kept: the EventLog protocol, its stores, and the digest chain."""
