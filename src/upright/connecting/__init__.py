"""Deployment -> client settings."""

from upright.connecting.client_settings import ClientSettings as ClientSettings
from upright.connecting.clients import CLIENTS as CLIENTS
from upright.connecting.clients import connect as connect
from upright.connecting.clients import known_client as known_client
from upright.connecting.trying import try_settings as try_settings
from upright.connecting.writing import write_settings as write_settings
