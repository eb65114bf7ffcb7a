"""Episodes of several turns: exactness, cost, faults and learning."""
