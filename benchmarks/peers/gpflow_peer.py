"""Times of GPflow on the problems of `benchmarks/`; run by them in GPflow's own environment. Prints one JSON line."""

import json
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import gpflow
import numpy as np
import tensorflow as tf


def best(fn, repetitions):
    fn()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return min(times)


def sgpr(n: int, M: int, repetitions: int) -> float:
    """Seconds of one collapsed bound with its gradient, SE kernel."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 10, n))[:, None]
    y = np.sin(6 * np.pi * X) + 0.1 * rng.normal(size=X.shape)
    model = gpflow.models.SGPR((X, y), gpflow.kernels.SquaredExponential(), np.linspace(0, 10, M)[:, None], noise_variance=0.1)
    objective = tf.function(model.training_loss)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = objective()
        return loss, tape.gradient(loss, model.trainable_variables)

    return best(lambda: [t.numpy() for t in tf.nest.flatten(step()) if t is not None], repetitions)


def svgp_round(n: int, M: int, rounds: int) -> float:
    """Seconds of one natural-gradient step and one Adam step, Bernoulli likelihood."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = (X[:, :1] * X[:, 1:] > 0).astype(float)
    model = gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential(), gpflow.likelihoods.Bernoulli(), rng.normal(size=(M, 2)), num_data=n
    )
    gpflow.set_trainable(model.q_mu, False)
    gpflow.set_trainable(model.q_sqrt, False)
    loss = model.training_loss_closure((X, y))
    natural, adam = gpflow.optimizers.NaturalGradient(0.1), tf.optimizers.Adam(0.01)
    variables = model.trainable_variables
    adam.build(variables)

    @tf.function
    def step():
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        with tf.GradientTape() as tape:
            value = loss()
        adam.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))

    def many():
        for _ in range(rounds):
            step()

    return best(many, 3) / rounds


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    print(json.dumps({"sgpr": sgpr, "svgp": svgp_round}[what](*map(int, numbers))))
