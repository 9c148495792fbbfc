"""The small recipe on forgetting: one skill, then another, then a merge that may keep both."""
