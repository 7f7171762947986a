"""A mixture of posteriors has the moments of its members' mixture, and samples that show them."""

import numpy as np
import pytest

import harmix as hx

X = np.array([0.2, 0.9, 2.0])


@pytest.fixture(scope="module")
def mixture() -> hx.MixturePosterior:
    data = [0.0, 1.0, 1.5], [1.0, 2.0, -1.0]
    members = [hx.condition(hx.kernels.SquaredExponential(1.0, s), None, 0.1, data) for s in (0.3, 2.0)]
    return hx.MixturePosterior(members, [1.0, 3.0])


def test_moments_match_samples(mixture: hx.MixturePosterior) -> None:
    samples = mixture.sample(0, X, 40_000)
    error = 5 * np.sqrt(mixture.variance(X) / len(samples))
    assert np.all(np.abs(samples.mean(axis=0) - mixture.mean(X)) < error)
    np.testing.assert_allclose(np.cov(samples.T), mixture.covariance(X), atol=0.03)
    np.testing.assert_allclose(np.diag(mixture.covariance(X)), mixture.variance(X), rtol=1e-10)


def test_noise_is_added(mixture: hx.MixturePosterior) -> None:
    np.testing.assert_allclose(mixture.variance(X, noise=True) - mixture.variance(X), 0.1)


def test_one_member_is_a_posterior(mixture: hx.MixturePosterior) -> None:
    member = mixture.members[0]
    alone = hx.MixturePosterior([member], [2.0])
    np.testing.assert_allclose(alone.covariance(X), member.covariance(X))
    ours, theirs = alone.spectrogram([0.5], [0.3], 0.5), member.spectrogram([0.5], [0.3], 0.5)
    np.testing.assert_allclose([ours.mean, ours.lower, ours.upper], [theirs.mean, theirs.lower, theirs.upper])
    np.testing.assert_allclose(alone.wigner([0.5], [0.3]), member.wigner([0.5], [0.3]))


def test_updates_reach_every_member(mixture: hx.MixturePosterior) -> None:
    more = mixture.update(([2.0], [0.5]))
    np.testing.assert_allclose(more.members[1].mean(X), mixture.members[1].update(([2.0], [0.5])).mean(X))
    assert np.all(more.variance(X) <= mixture.variance(X) + 0.3)


def test_weights_are_checked(mixture: hx.MixturePosterior) -> None:
    with pytest.raises(ValueError, match="weights must be one for each of the 2 members"):
        hx.MixturePosterior(mixture.members, [1.0])
