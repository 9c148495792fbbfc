"""Questions of several hops, from a graph of facts: whoever made it, and however the question is worded."""
