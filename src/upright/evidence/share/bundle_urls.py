"""Whether a bundle may be fetched from a pointer's URL.

A pointer from the network must not make this machine open its own files, or speak to what only it can reach.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import SplitResult, urlsplit

from upright.base.errors import RecordError
from upright.base.untrusted_text import on_one_line


def refuse_bundle_url(url: str, index_url: str) -> None:
    """RecordError says why nothing is asked there. A folder's pointers are its owner's business."""
    if "://" not in index_url:
        return
    place, index = _split(url), _split(index_url)
    own = place.hostname is not None and place.hostname == index.hostname
    shown = on_one_line(url, 120)
    if place.scheme != "https" and not (place.scheme == "http" and own):
        raise RecordError(f"{shown} is refused: an index on the network leads to https, or to its own host")
    if not own and place.hostname and _inside(place.hostname) and not _loopback(index.hostname or ""):
        raise RecordError(f"{shown} is refused: it lies inside this network, and its index does not")


def _split(url: str) -> SplitResult:
    try:
        place = urlsplit(url)
        _ = place.port, place.hostname
    except ValueError:
        raise RecordError(f"{on_one_line(url, 120)} is refused: it is no address") from None
    return place


def _inside(host: str) -> bool:
    return any(not address.is_global or address.is_multicast for address in _addresses(host))


def _loopback(host: str) -> bool:
    addresses = _addresses(host)
    return bool(addresses) and all(address.is_loopback for address in addresses)


def _addresses(host: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """None of a name that this machine does not know: a proxy may, and that is not inside."""
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    addresses = [ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in infos]
    return [getattr(address, "ipv4_mapped", None) or address for address in addresses]
