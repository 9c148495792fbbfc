"""The ablation of RL's parts: arms over seeds and settings, from one supervised model, with equal rollouts and tuning."""
