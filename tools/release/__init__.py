"""What a release consists of; `python -m tools.release` builds it."""
