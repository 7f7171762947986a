"""Estimators in the manner of scikit-learn, for people who have a table and want a forecast, a label or a picture."""

from harmix.estimators._base import ExtrapolationWarning as ExtrapolationWarning
from harmix.estimators._classifier import HarmonizableGPClassifier as HarmonizableGPClassifier
from harmix.estimators._regressor import HarmonizableGPRegressor as HarmonizableGPRegressor
