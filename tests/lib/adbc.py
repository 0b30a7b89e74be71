# SPDX-License-Identifier: GPL-2.0-only
"""ADBC drivers from PyPI for tests"""
import os

import parquet
from postgres import BUILD

PLACE = os.path.join(BUILD, "adbc")


def driver(database):
    """Return the library of the driver for "postgresql" or "sqlite". Skip the test if it is missing."""
    parquet.install(PLACE, "adbc-driver-postgresql", "adbc-driver-sqlite", "--no-deps")
    return os.path.join(PLACE, f"adbc_driver_{database}", f"libadbc_driver_{database}.so")
