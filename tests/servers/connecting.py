"""A backend that has reached its store, for tests about what is wrong with one."""


def connected(backend):
    """The same backend, once it has connected; closed, if it cannot."""
    try:
        backend.connect()
    except BaseException:
        backend.close()
        raise
    return backend
