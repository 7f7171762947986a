"""The report: one HTML file that shows a person what a model has learned, how sure it is, and whether to believe it.

`write` gathers numbers (`contents`), words (`words`) and sections (`page`) from a `Fitted` model. The file needs no network:
its figures are drawn by a small script inside it (`assets/`), and a content security policy keeps any other from running.
"""

from harmix.report.contents import HeldOut as HeldOut
from harmix.report.contents import scores as scores
from harmix.report.fitted import Fitted as Fitted
from harmix.report.write import Names as Names
from harmix.report.write import write as write
