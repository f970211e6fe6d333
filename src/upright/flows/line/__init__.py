"""The order of the verbs. Read `flow.py` first: it is the whole flow on one screen; each step is a file beside it."""

from upright.flows.line.flow import LineRun as LineRun
from upright.flows.line.flow import run as run
from upright.flows.line.healing import heal_up as heal_up
from upright.flows.line.preparing import LaunchTarget as LaunchTarget
from upright.flows.line.preparing import Prepared as Prepared
from upright.flows.line.preparing import prepare_model as prepare_model
from upright.flows.line.preparing import prepare_recipe as prepare_recipe
from upright.flows.line.rehearsing import rehearse_model as rehearse_model
from upright.flows.line.starting import measure_residuals as measure_residuals
from upright.flows.line.starting import register as register
from upright.flows.line.starting import start as start
from upright.flows.line.writing_reports import report_subject as report_subject
from upright.flows.line.writing_reports import write_report as write_report
