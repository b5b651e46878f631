"""A site's end: it fetches its messages in the process that holds its records, and sends what that process answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sfumato.errors import InputError
from sfumato.federation.flower.link import Link, looks, packed, unpacked

LOG = logging.getLogger(__name__)
FAILED = 0  # Flower's code for an error of which nothing more is said
PATIENCE = 60.0  # seconds in which the pieces of a message come


def serve(link: Link, replies: Mapping[str, Callable[[bytes], bytes]], last: str) -> None:
    """Answer messages by their kind, one at a time, up to one of the kind `last`."""
    from flwr.supernode.fleet_http_connection import http_request_response

    with http_request_response(*link.place, _keys(link)) as (_, receive, *ways):
        kind = ""
        while kind != last:
            kind = _answered(ways, _next(receive), replies)
        return
    raise InputError(f"The SuperLink at {link.address} was lost; start the site again when it is back.")


def _keys(link: Link) -> tuple[Any, Any] | None:
    """The pair of keys by which the site is known; without a file, new ones that Flower makes."""
    if link.key is None:
        return None
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    key = load_ssh_private_key(link.key, None)
    return key, key.public_key()


def _next(receive: Callable[[], Any]) -> Any:
    """The next message, without its content, and what its content consists of."""
    return next(found for _ in looks() if (found := receive()) is not None)


def _answered(ways: list[Any], found: Any, replies: Mapping[str, Callable[[bytes], bytes]]) -> str:
    """The kind of a message that was fetched and answered, unless its coordinator went away meanwhile."""
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
    from flwr.supercore.run import RunNotRunningException

    send, _, _, pull, push, confirm = ways
    head, tree = found
    try:
        message = _fetched(head, tree, pull, confirm)
        _send(_reply(message, replies), send, push)
    except (ObjectPullError, RunNotRunningException):
        LOG.warning("A coordinator went away before it had its reply.")
        return ""
    return str(message.metadata.message_type)


def _fetched(head: Any, tree: Any, pull: Callable[..., bytes], confirm: Callable[..., None]) -> Any:
    """A message with its content."""
    from flwr.app import Message
    from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree

    run = head.metadata.run_id
    message = pull_and_inflate_object_from_tree(
        tree, partial(pull, run), partial(confirm, run), return_type=Message, max_time=PATIENCE
    )
    message.metadata.__dict__["_message_id"] = tree.object_id  # which a message does not carry itself
    return message


def _reply(message: Any, replies: Mapping[str, Callable[[bytes], bytes]]) -> Any:
    """What the site says; in the place of an error, whose words may tell of records, that there was one."""
    from flwr.app import Error, Message

    try:
        return Message(packed(replies[message.metadata.message_type](unpacked(message.content))), reply_to=message)
    except Exception:
        LOG.exception("A request could not be answered.")
        return Message(Error(FAILED), reply_to=message)


def _send(reply: Any, send: Callable[..., Any], push: Callable[..., None]) -> None:
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
    from flwr.supercore.inflatable.inflatable_utils import push_objects

    reply.metadata.__dict__["_message_id"] = reply.object_id
    wanted, session = send(reply, get_object_tree(reply), 0.0)
    put = partial(push, reply.metadata.run_id, session)
    push_objects(get_all_nested_objects(reply), put, object_ids_to_push=wanted)
