"""A view that enqueues and may raise, and the admin."""

from django.contrib import admin
from django.http import HttpResponse
from django.urls import path

from shop.models import Order
from shop.tasks import add


def order(request):
    Order.objects.create(label="seen")
    result = add.enqueue(1, 2)
    if "raise" in request.GET:
        raise ValueError(result.id)
    return HttpResponse(result.id)


urlpatterns = [path("order", order), path("admin/", admin.site.urls)]
