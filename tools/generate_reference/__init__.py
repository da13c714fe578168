"""The reference pages, generated from the code: commands and their flags, metrics, feature gates,
scheduler plugins, and what every requirement is proved by. A test compares the committed pages with what these modules
make, so a flag without a line in the reference does not land."""
