"""Identities of this machine and a deployment that must not leave it."""

from __future__ import annotations

import getpass
import os
import re
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from upright.base.errors import RecordError
from upright.base.home import home
from upright.evidence.bundle.redacting import KnownIdentities
from upright.facts.records.box import Box
from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir

_SECRET_VARIABLE = re.compile(r".*(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?(_|$)", re.IGNORECASE)
_LIKE_A_SECRET = re.compile(r"[\x21-\x7e]{8,}")
_USER_VARIABLES = ("USER", "LOGNAME", "SUDO_USER", "USERNAME")


def identities_of(directory: DeploymentDir) -> KnownIdentities:
    here = machine_identities()
    secrets = dict(here.secrets)
    if directory.key_file.exists():
        secrets[directory.key()] = "the deployment's key"
    return replace(here, secrets=secrets, hosts=here.hosts | _hosts(directory))


def machine_identities() -> KnownIdentities:
    """Of this machine alone: for a log that belongs to no deployment."""
    folders = {str(home()): "$UPRIGHT_HOME"}
    if str(Path.home()) != "/":
        folders[str(Path.home())] = "~"
    hosts = {socket.gethostname(), socket.gethostname().partition(".")[0]}
    return KnownIdentities(
        secrets=_secrets(), folders=folders, users=_users(), hosts=frozenset(hosts - {"", "localhost"})
    )


def _secrets() -> dict[str, str]:
    known_secrets = {
        secret: f"the value of {name}"
        for name, secret in os.environ.items()
        if _SECRET_VARIABLE.fullmatch(name) and _LIKE_A_SECRET.fullmatch(secret) and "/" not in secret
    }
    with suppress(Exception):  # a token file that cannot be read holds nothing that we could have written down
        from huggingface_hub import get_token

        if token := get_token():
            known_secrets[token] = "the token of the hub"
    return known_secrets


def _users() -> frozenset[str]:
    names = {os.environ.get(name, "") for name in _USER_VARIABLES}
    with suppress(OSError, KeyError):
        names.add(getpass.getuser())
    return frozenset(names - {""})


def _hosts(directory: DeploymentDir) -> frozenset[str]:
    names: set[str] = set()
    with suppress(RecordError):
        names.add(directory.read(Box).name)
    with suppress(RecordError):
        machine = directory.read(Deployment).machine or ""
        names |= {machine, machine.rpartition("@")[2]}
    return frozenset(names - {"", "localhost"})
