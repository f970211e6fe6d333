"""This machine and a deployment -> what must not leave it."""

from __future__ import annotations

import getpass
import os
import re
import socket
from contextlib import suppress
from pathlib import Path

from upright.bundling.redacting import KnownIdentities
from upright.errors import RecordError
from upright.home import home
from upright.records.box import Box
from upright.records.deployment import Deployment
from upright.store import DeploymentDir

_SECRET_VARIABLE = re.compile(r".*(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?(_|$)", re.IGNORECASE)
_LIKE_A_SECRET = re.compile(r"[\x21-\x7e]{8,}")
_USER_VARIABLES = ("USER", "LOGNAME", "SUDO_USER", "USERNAME")


def known_of(directory: DeploymentDir) -> KnownIdentities:
    folders = {str(home()): "$UPRIGHT_HOME"}
    if str(Path.home()) != "/":
        folders[str(Path.home())] = "~"
    return KnownIdentities(secrets=_secrets(directory), folders=folders, users=_users(), hosts=_hosts(directory))


def _secrets(directory: DeploymentDir) -> dict[str, str]:
    known_secrets = {
        secret: f"the value of {name}"
        for name, secret in os.environ.items()
        if _SECRET_VARIABLE.fullmatch(name) and _LIKE_A_SECRET.fullmatch(secret) and "/" not in secret
    }
    with suppress(Exception):  # a token file that cannot be read holds nothing that we could have written down
        from huggingface_hub import get_token

        if token := get_token():
            known_secrets[token] = "the token of the hub"
    if directory.key_file.exists():
        known_secrets[directory.key()] = "the deployment's key"
    return known_secrets


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
