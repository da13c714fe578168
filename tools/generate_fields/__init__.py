"""Generates `src/mooring/api/fields/table.json` from the published Go modules; see README.md beside this."""
