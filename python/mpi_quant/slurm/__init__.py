"""Experiments as jobs of Slurm: what is to run, the folder of a run, and what becomes of it."""
