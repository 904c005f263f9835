"""Flask: every run of a job in an application context, settings from ``app.config``, and the command ``flask onward``.

    app = Flask("shop")
    jobs = init_app(app)        # made from app.config
    init_app(app, jobs)         # or made elsewhere

Called where the Flask application is made.  Read `extension`, then `commands` and `app`, which a worker imports.
"""

from onward.errors import OptionError

try:
    import flask as _flask  # noqa: F401  whether it is there
except ImportError as missing:
    raise OptionError("onward.integrations.flask needs Flask: pip install 'onward[flask]'") from missing

from onward.integrations.flask.extension import init_app

__all__ = ["init_app"]
