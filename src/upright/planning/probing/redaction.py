"""The names on a host that a recording must not carry."""

from __future__ import annotations

from upright.base.host import Host, IdentityRedaction
from upright.planning.probing.questions import ask, script

_QUESTIONS = {
    "hosts": script("identity-hosts", "uname -n; hostname -f 2>/dev/null; cat /etc/hostname 2>/dev/null; exit 0"),
    # Logins that people have, whoever asks: their names are in home folders and mount points.
    "users": script(
        "identity-users",
        """
        id -un; printf '%s\\n' "$USER" "$LOGNAME" "$SUDO_USER"
        getent passwd 2>/dev/null | while IFS=: read -r name _ id _; do
            [ "$id" -ge 1000 ] && [ "$id" -lt 60000 ] && printf '%s\\n' "$name"
        done
        exit 0
        """,
    ),
}


def redaction_for(host: Host) -> IdentityRedaction:
    """Asked of the host itself, never of the recorder: the answers must not be recorded."""
    answers = ask(host, _QUESTIONS)
    target = host.name.removeprefix("ssh:").rpartition("@")[2].partition(":")[0]
    return IdentityRedaction(hosts=[target, *answers["hosts"].out.split()], users=answers["users"].out.split())
