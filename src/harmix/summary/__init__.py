"""Data as weighted nodes that add: exact, or compressed so that training does not depend on how many there were."""

from harmix.summary.core import Summary as Summary
from harmix.summary.core import as_summary as as_summary
from harmix.summary.core import observations as observations
from harmix.summary.sources import summarize as summarize
