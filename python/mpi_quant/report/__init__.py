"""What is concluded from result files: pages, tables, verdicts, policies."""
