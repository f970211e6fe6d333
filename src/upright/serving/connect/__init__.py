"""Deployment -> client settings."""

from upright.serving.connect.client_settings import ClientSettings as ClientSettings
from upright.serving.connect.client_trial import try_settings as try_settings
from upright.serving.connect.clients import CLIENTS as CLIENTS
from upright.serving.connect.clients import connect as connect
from upright.serving.connect.clients import known_client as known_client
from upright.serving.connect.settings_file import write_settings as write_settings
