"""What Django finds by itself: the `commands` of ``manage.py``."""
