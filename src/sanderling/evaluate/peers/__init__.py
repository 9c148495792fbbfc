"""Trajectories that others have made, judged and measured in the same tables as our own runs."""
