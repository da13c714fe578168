"""Mooring's requirements as data, and the pytest plugin that reports which are proved."""
