"""The addresses of the shop, with the dashboard among them."""

from django.urls import include, path

from onward.integrations.django import task_backends
from onward.web import Dashboard, DjangoStaff
from shop import urls

dashboard = Dashboard(task_backends["default"].jobs, auth=DjangoStaff())
urlpatterns = [*urls.urlpatterns, path("ops/", include(dashboard.django()))]
