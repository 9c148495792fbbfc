"""The tiny recipe: world, questions, trajectories, SFT, RL, evaluation and report, on a CPU in minutes."""
