"""The objects that long connections share: followers, ticks, worker threads and places."""

from __future__ import annotations

from weft.service.config import seconds_of
from weft.service.events.commit_signal import CommitSignal
from weft.service.events.followers import Followers
from weft.service.events.ticks import Ticks
from weft.service.service import Service
from weft.service.workers import ConnectionSlots, Workers


class Connections:
    """All long connections of a service."""

    def __init__(self, service: Service, bell: CommitSignal) -> None:
        self._bell = bell
        self.workers = Workers(seconds_of(service.config.server.read_limit))
        self.places = ConnectionSlots(service.config.server.connections)
        self.followers = Followers(service, bell, self.workers)
        self.ticks = Ticks(service, bell, self.workers)

    def stop(self) -> None:
        """End all long connections."""
        self.followers.stopped = self.ticks.stopped = True
        self._bell.ring()
