"""Generates `src/mooring/api/schema/table.json` from the published Go modules; see README.md beside this."""
