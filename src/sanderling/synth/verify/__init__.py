"""Whether a question is worth asking: it can be answered, and not without research."""
