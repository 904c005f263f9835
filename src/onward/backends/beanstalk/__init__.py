"""Jobs in beanstalkd: a broker, not a database.  What it cannot do is declared, not imitated."""

from onward.backends.beanstalk.backend import BeanstalkBackend

__all__ = ["BeanstalkBackend"]
