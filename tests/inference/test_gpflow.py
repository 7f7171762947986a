"""GPflow's SGPR and SVGP say the same: same kernel, same inducing points, same q. Needs the environment that `make bench` builds."""

import json
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import harmix as hx

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.bench

GPFLOW = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import gpflow, numpy as np
gpflow.config.set_default_jitter(1e-12)
d = {k: np.array(v) for k, v in json.load(sys.stdin).items()}
kernel = lambda: gpflow.kernels.SquaredExponential(variance=1.7, lengthscales=0.8)
sgpr = gpflow.models.SGPR((d["X"], d["y"][:, None]), kernel(), d["Z"], noise_variance=0.3)
svgp = gpflow.models.SVGP(kernel(), gpflow.likelihoods.Gaussian(0.3), d["Z"], q_mu=d["m"][:, None], q_sqrt=d["root"][None], whiten=True)
out = {"sgpr": [float(sgpr.elbo())], "svgp": [float(svgp.elbo((d["X"], d["y"][:, None])))]}
for name, model in (("sgpr", sgpr), ("svgp", svgp)):
    out[name] += [np.asarray(a)[:, 0].tolist() for a in model.predict_f(d["new"])]
print(json.dumps(out))
"""


def test_bounds_and_predictions_agree_with_gpflow():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import peers

    python = peers.ENVIRONMENTS["gpflow"]
    if not python.exists():
        pytest.skip("no environment with GPflow: make bench builds it")
    rng = np.random.default_rng(0)
    X, Z, new = rng.uniform(-3, 3, (60, 2)), rng.uniform(-3, 3, (9, 2)), rng.uniform(-4, 4, (7, 2))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=60)
    m, root = rng.normal(size=9), np.tril(0.2 * rng.normal(size=(9, 9)), -1) + np.diag(rng.uniform(0.3, 1, 9))
    given = dict(X=X, y=y, Z=Z, new=new, m=m, root=root)
    text = json.dumps({k: v.tolist() for k, v in given.items()})
    run = subprocess.run([str(python), "-c", GPFLOW], input=text, capture_output=True, text=True, check=False, env={})
    assert run.returncode == 0, run.stderr[-2000:]
    theirs = json.loads(run.stdout.strip().splitlines()[-1])

    k, u = hx.kernels.SquaredExponential(1.7, 0.8), hx.features.InducingPoints(Z)
    with jax.enable_x64(True):
        q = hx.VariationalGaussian(u, k)
        q = eqx.tree_at(lambda q: (q.mean, q.root), q, (jnp.asarray(m)[None], jnp.asarray(root)[None, None]))
    ours = {
        "sgpr": (hx.collapsed_bound(k, u, 0.3, (X, y)), hx.condition(k, u, 0.3, (X, y))),
        "svgp": (hx.elbo(k, u, hx.likelihoods.Gaussian(0.3), q, X, y), hx.posterior(k, u, q)),
    }
    for name, (bound, post) in ours.items():
        their_bound, mean, variance = theirs[name]
        assert bound == pytest.approx(their_bound, rel=1e-6)
        np.testing.assert_allclose(post.mean(new), mean, rtol=0, atol=1e-6)
        np.testing.assert_allclose(post.variance(new), variance, rtol=0, atol=1e-6)
