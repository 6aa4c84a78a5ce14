"""Sweep files, and the launches that they ask for."""
