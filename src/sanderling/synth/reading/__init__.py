"""Graphs of facts that a language model reads from pages: every fact with the words that state it, checked to stand there."""
