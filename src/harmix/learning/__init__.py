"""Learning: where to start, how to climb, what to average over."""
