"""Deployment -> client settings."""

from upright.connecting.clients import CLIENTS as CLIENTS
from upright.connecting.clients import ClientSettings as ClientSettings
from upright.connecting.clients import connect as connect
