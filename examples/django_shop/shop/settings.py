"""A shop whose tasks are in the database of its orders."""

import os

from django import VERSION

SECRET_KEY = "only for this example"  # noqa: S105
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["onward.integrations.django", "shop"]
if VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_FILE", "shop.sqlite3"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
TASKS = {
    "default": {
        "BACKEND": "onward.integrations.django.OnwardBackend",
        "OPTIONS": {"default_max_retries": 3},
    }
}
