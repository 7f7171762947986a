"""Inference: exact, collapsed, stochastic variational with natural gradients, and the posterior they all end in."""
