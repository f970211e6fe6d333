"""The order of the verbs. Read `flow.py` first: it is the whole flow on one screen; each step is a file beside it."""

from upright.line.climbing import climb as climb
from upright.line.flow import LineRun as LineRun
from upright.line.flow import run as run
from upright.line.healing import heal_up as heal_up
from upright.line.preparing import On as On
from upright.line.preparing import Prepared as Prepared
from upright.line.preparing import prepare as prepare
from upright.line.preparing import prepare_recipe as prepare_recipe
from upright.line.rehearsing import rehearse_model as rehearse_model
from upright.line.starting import measure as measure
from upright.line.starting import register as register
from upright.line.starting import start as start
from upright.line.telling import subject as subject
from upright.line.telling import write_report as write_report
