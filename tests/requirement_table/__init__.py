"""The promises Mooring makes, as data, and the pytest plugin that says which of them are proved."""
