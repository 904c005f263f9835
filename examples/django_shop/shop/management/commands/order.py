from django.core.management.base import BaseCommand
from django.db import transaction

from shop.models import Order
from shop.tasks import charge


class NoCredit(Exception): ...


class Command(BaseCommand):
    help = "Place orders; one of a customer without credit is rolled back, and so is its task."

    def add_arguments(self, parser):
        parser.add_argument("customers", nargs="+")

    def handle(self, *, customers, **_):
        for customer in customers:
            try:
                number = place(customer)
            except NoCredit as error:
                self.stdout.write(f"refused: {error}")
            else:
                self.stdout.write(f"order {number} of {customer}")


@transaction.atomic
def place(customer):
    """Store an order and the task that charges it, or neither."""
    order = Order.objects.create(customer=customer)
    charge.enqueue(order.pk)
    if customer == "bob":
        raise NoCredit(f"{customer} has no credit")
    return order.pk
