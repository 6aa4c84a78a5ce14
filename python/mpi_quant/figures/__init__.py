"""Figures of result files: which rows, how they look, and a module of plots/ for each plot."""
