"""Reads a page of OpenMetrics from standard input; fails at whatever the specification forbids."""

import sys

from prometheus_client.openmetrics.parser import text_fd_to_metric_families

families = {family.name for family in text_fd_to_metric_families(sys.stdin)}
assert len(families) > 50, families
