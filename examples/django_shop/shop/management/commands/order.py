from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from shop.models import Order
from shop.tasks import charge


class Command(BaseCommand):
    help = "Place an order; one of a customer without credit is rolled back, and so is its task."

    def add_arguments(self, parser):
        parser.add_argument("customer")

    def handle(self, *, customer, **_):
        try:
            with transaction.atomic():
                order = Order.objects.create(customer=customer)
                charge.enqueue(order.pk)
                if customer == "bob":
                    raise CommandError(f"{customer} has no credit")  # noqa: TRY301
        except CommandError as error:
            self.stdout.write(f"refused: {error}")
        else:
            self.stdout.write(f"order {order.pk} of {customer}")
