"""The driver, which is an extra: without it the error names the extra."""

from __future__ import annotations

from onward.errors import BackendMisconfigured

try:
    import greenstalk
except ImportError as error:
    raise BackendMisconfigured("beanstalk:// needs the driver greenstalk: pip install 'onward[beanstalk]'") from error

__all__ = ["greenstalk"]
