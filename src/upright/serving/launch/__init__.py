"""Recipe -> Deployment."""

from upright.serving.launch.launch import TakenDownError as TakenDownError
from upright.serving.launch.launch import base_url_for as base_url_for
from upright.serving.launch.launch import is_starting as is_starting
from upright.serving.launch.launch import launch as launch
from upright.serving.launch.launch import refuse_missing_runtime as refuse_missing_runtime
from upright.serving.launch.launch import refuse_taken_port as refuse_taken_port
from upright.serving.launch.launch import replace_recipe as replace_recipe
from upright.serving.launch.launch import restart as restart
from upright.serving.launch.launch import status as status
from upright.serving.launch.launch import stop as stop
from upright.serving.launch.launch import take_down as take_down
