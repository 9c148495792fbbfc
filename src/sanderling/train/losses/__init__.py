"""Losses: one small file each."""
