"""The database comes from the environment; tests have one of their own beside it."""

import json
import os
from pathlib import Path

from django import VERSION

FOLDER = Path(os.environ["SHOP_FOLDER"])
SECRET_KEY = "a key of tests"
USE_TZ = True
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "onward.integrations.django",
    "shop",
    *(["django_tasks"] if VERSION < (6, 0) else []),
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
_given = json.loads(os.environ["SHOP_DATABASE"])
_file = {"TEST": {"NAME": str(FOLDER / "test.sqlite3")}} if "sqlite3" in _given["ENGINE"] else {}
DATABASES = {
    "default": {**_given, **_file, "CONN_MAX_AGE": 60, "ATOMIC_REQUESTS": True},
    "second": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": FOLDER / "second.sqlite3",
        "TEST": {"NAME": str(FOLDER / "test_second.sqlite3"), "MIGRATE": True},
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
BACKEND = "onward.integrations.django.OnwardBackend"
TASKS = {
    "default": {
        "BACKEND": BACKEND,
        "QUEUES": [],
        "OPTIONS": {
            "default_retry": {"strategy": "fixed", "base": 0},
            "default_max_retries": 0,
            "lease_for": 3,
            "aliases": {"old.tasks.add": "shop.tasks.add"},
            "tasks": {"shop.tasks.patient": {"max_retries": 2}},
        },
    },
    "second": {"BACKEND": BACKEND, "OPTIONS": {"database": "second"}},
    "elsewhere": {"BACKEND": BACKEND, "OPTIONS": {"url": f"sqlite:///{FOLDER}/elsewhere.db"}},
    "at_once": {"BACKEND": BACKEND, "OPTIONS": {"url": f"sqlite:///{FOLDER}/at_once.db", "on_commit": False}},
}
