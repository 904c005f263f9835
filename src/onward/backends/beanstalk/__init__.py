"""Jobs in beanstalkd: a broker, not a database.  The backend declares what the server cannot do, and imitates nothing.

Only `backends/opening` makes a backend.  Read it in this order: `backend` (the verbs), `session` (claiming, and what one
owner holds), `settling`, `connection` and `pipeline` (the commands), `body` and `tubes` (what is written), `health`, `url`.
"""

from onward.backends.beanstalk.backend import BeanstalkBackend

__all__ = ["BeanstalkBackend"]
