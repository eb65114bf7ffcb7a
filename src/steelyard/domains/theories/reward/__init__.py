"""Score theories: reward parts, success criterion and variety bonus."""
