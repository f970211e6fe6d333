"""log -> Diagnosis -> remedy: know why it died, and what to change."""

from upright.serving.diagnose.diagnose import LogContext as LogContext
from upright.serving.diagnose.diagnose import cause_in_log as cause_in_log
from upright.serving.diagnose.diagnose import diagnose as diagnose
from upright.serving.diagnose.diagnose import diagnose_file as diagnose_file
from upright.serving.diagnose.milestones import engine_of as engine_of
from upright.serving.diagnose.remedies import apply_remedy as apply_remedy
