"""The steps of cleaning: one small file each, a function of a trajectory, its settings and a target."""
