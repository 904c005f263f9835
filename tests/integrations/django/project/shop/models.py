"""What tasks write."""

from django.db import models


class Order(models.Model):
    label = models.CharField(max_length=100)
