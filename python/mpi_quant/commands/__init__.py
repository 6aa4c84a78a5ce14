"""The commands of mpiq: a module for each, with a function main(words) that returns an exit code."""
