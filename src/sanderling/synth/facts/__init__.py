"""Short-answer questions from single pages, written by a language model and checked by rule and by rubric."""
