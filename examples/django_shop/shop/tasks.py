from django.db import transaction

from onward.integrations.django import options, task
from shop.models import Order


@task(takes_context=True)
@options(timeout="30s", unique_key="charge:{number}")
def charge(context, number):
    """Charge an order once: what is written here is committed together with the success of the task, or not at all."""
    with transaction.atomic():
        order = Order.objects.select_for_update().get(pk=number)
        order.charged = True
        order.save()
        with context.onward.transaction(transaction.get_connection()) as tx:
            tx.complete(f"{order.customer} pays")
