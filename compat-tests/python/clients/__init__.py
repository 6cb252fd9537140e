"""One module a client: what the scenarios ask for, in the client's own words."""

import collections

TIMEOUT = 30

Record = collections.namedtuple("Record", "offset key value timestamp headers")


class Refused(Exception):
    """The broker refused; the message names Kafka's error."""
