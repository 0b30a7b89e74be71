# SPDX-License-Identifier: GPL-2.0-only
"""Foreign tables over workers of a Lab, whose aggregator prunes and adds rows. PostgreSQL runs on the master's host."""
import postgres
from lab import SLOW
from queries import Queries, last_key, write_table


class Far(Queries):
    """Run a PostgreSQL server on the master. `sql` executes a statement there, and `secret` is the workers' key."""

    def __init__(self, net, folder):
        super().__init__(net, folder)
        self.secret = last_key(self.key)
        with self.master.entered():
            self.server = postgres.Server()
        self.sql = self.server.sql

    def create_server(self, listed):
        """Make the foreign server `far` with these queries at the aggregator, which sessions use as often as they can."""
        self.sql(f"""CREATE EXTENSION fpisa; ALTER DATABASE postgres SET fpisa.pruning = network;
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '{",".join(self.net.addresses[:-1])}', aggregator '{self.net.address}',
    queries '{listed}', timeout '{int(20 * SLOW)}');
CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (key '{self.secret}')""")

    def deal(self, name, schema, rows):
        """Deal rows out to the workers in turn."""
        for rank, _ in enumerate(self.workers):
            write_table(self.directory(rank), name, schema, rows[rank::len(self.workers)])

    def close(self):
        self.server.close()
        super().close()
