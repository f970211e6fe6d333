"""Recipe -> Deployment."""

from upright.launching.launch import address as address
from upright.launching.launch import goes_on as goes_on
from upright.launching.launch import launch as launch
from upright.launching.launch import refuse_missing_runtime as refuse_missing_runtime
from upright.launching.launch import refuse_taken_port as refuse_taken_port
from upright.launching.launch import restart as restart
from upright.launching.launch import status as status
from upright.launching.launch import stop as stop
