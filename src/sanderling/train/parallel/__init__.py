"""The processes of a run: how they meet, what they share, and how a model lies over them."""
