"""This machine and a deployment -> what must not leave it."""

from __future__ import annotations

import getpass
import os
import re
import socket
from contextlib import suppress
from pathlib import Path

from upright.bundling.redacting import Known
from upright.errors import RecordError
from upright.home import home
from upright.records.box import Box
from upright.records.deployment import Deployment
from upright.store import DeploymentDir

_SECRET_VARIABLE = re.compile(r".*(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?(_|$)", re.IGNORECASE)
_LIKE_A_SECRET = re.compile(r"[\x21-\x7e]{8,}")
_USER_VARIABLES = ("USER", "LOGNAME", "SUDO_USER", "USERNAME")


def known_of(directory: DeploymentDir) -> Known:
    folders = {str(home()): "$UPRIGHT_HOME"}
    if str(Path.home()) != "/":
        folders[str(Path.home())] = "~"
    return Known(secrets=_secrets(directory), folders=folders, users=_users(), hosts=_hosts(directory))


def _secrets(directory: DeploymentDir) -> dict[str, str]:
    found = {
        value: f"the value of {name}"
        for name, value in os.environ.items()
        if _SECRET_VARIABLE.fullmatch(name) and _LIKE_A_SECRET.fullmatch(value) and "/" not in value
    }
    with suppress(Exception):  # a token file that cannot be read holds nothing that we could have written down
        from huggingface_hub import get_token

        if token := get_token():
            found[token] = "the token of the hub"
    if directory.key_file.exists():
        found[directory.key()] = "the deployment's key"
    return found


def _users() -> frozenset[str]:
    names = {os.environ.get(name, "") for name in _USER_VARIABLES}
    with suppress(OSError, KeyError):
        names.add(getpass.getuser())
    return frozenset(names - {""})


def _hosts(directory: DeploymentDir) -> frozenset[str]:
    names = {socket.gethostname(), socket.gethostname().partition(".")[0]}
    with suppress(RecordError):
        names.add(directory.read(Box).name)
    with suppress(RecordError):
        machine = directory.read(Deployment).machine or ""
        names |= {machine, machine.rpartition("@")[2]}
    return frozenset(names - {"", "localhost"})
