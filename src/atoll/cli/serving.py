"""Runs a service of ours to its end: logs, event loop, and what becomes of a bug."""

import logging
import sys
from collections.abc import Coroutine

import structlog
import uvloop
from structlog.typing import Processor

from atoll.core.errors import AtollError


def run(service: Coroutine[None, None, None], *, json_logs: bool) -> bool:
    """Run until it is told to stop; False when a bug ended it, which the log then shows.

    Raises:
        AtollError: it cannot be started as told.
    """
    configure_logs(json_logs=json_logs)
    try:
        uvloop.run(service)
    except AtollError:
        raise
    except Exception:
        structlog.get_logger("atoll").exception("failed")
        return False
    return True


def configure_logs(*, json_logs: bool, level: int = logging.INFO) -> None:
    """Events with keys, to standard error: JSON lines, or for a person's eyes.

    What libraries log through the standard library goes the same way.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor]
    if json_logs:
        last = [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    else:
        last = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
