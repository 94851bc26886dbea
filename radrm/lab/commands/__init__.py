"""The commands of the laboratory: their parameters, their help and what they show."""
