"""Runs user code: scopes and addresses, replay, records, leases, observers."""
