"""What `mooring` commands log: JSON lines on standard error, from a level up."""

import logging
import sys
from collections.abc import Sequence
from typing import Final

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import Processor

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


#: Tracebacks without the values of variables: those hold tokens and the data of Secrets.
PROCESSORS: Final[Sequence[Processor]] = (
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
    structlog.processors.JSONRenderer(),
)


def configure(level: str) -> None:
    structlog.configure(
        processors=list(PROCESSORS),  # structlog copies it as a list where it captures logs
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
