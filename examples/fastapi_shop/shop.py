"""A shop on FastAPI and PostgreSQL: an order, its job and its stock are one transaction.

    export SHOP_DATABASE=postgresql://localhost/shop
    uvicorn shop:app                  # the web server
    onward worker shop:jobs           # the worker, in another terminal
    curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"customer": "ann", "lamps": 2}'

Needs: pip install 'onward[postgres]' fastapi uvicorn 'sqlalchemy[asyncio]'
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel, PositiveInt
from sqlalchemy import ForeignKey, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from onward import AsyncJobContext, Exponential, Onward

DATABASE = os.environ["SHOP_DATABASE"]
IN_STOCK = 5

jobs = Onward(DATABASE, default_max_retries=5, default_retry=Exponential(base=1))
engine = create_async_engine(DATABASE.replace("postgresql://", "postgresql+psycopg://"))
make_session = async_sessionmaker(engine, expire_on_commit=False)


class Base(DeclarativeBase): ...


class Stock(Base):
    __tablename__ = "stock"
    item: Mapped[str] = mapped_column(primary_key=True)
    left: Mapped[int]


class Order(Base):
    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    lamps: Mapped[int]
    state: Mapped[str] = mapped_column(default="placed")


class Charge(Base):
    __tablename__ = "charges"
    number: Mapped[int] = mapped_column(primary_key=True)
    order: Mapped[int] = mapped_column(ForeignKey(Order.number))
    amount: Mapped[int]


# The jobs


@jobs.job(queue="payments", timeout="30s")
async def charge(ctx: AsyncJobContext, number: int) -> None:
    """Charge an order.  The charge, the next job and the success of this one are one commit."""
    async with make_session.begin() as session:
        order = await session.get_one(Order, number, with_for_update=True)
        order.state = "paid"
        session.add(Charge(order=number, amount=order.lamps * 20))
        await session.flush()
        async with ctx.transaction(session) as tx:
            await tx.enqueue(confirm, order.customer, number)
            tx.complete()


@jobs.job(queue="mail")
def confirm(customer: str, number: int) -> str:
    return f"dear {customer}, order {number} is on its way"


# The web application


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Make the tables; a real shop has migrations, and runs `onward migrate` with them."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        await connection.execute(insert(Stock).values(item="lamp", left=IN_STOCK).on_conflict_do_nothing())
    await asyncio.to_thread(jobs.connect)
    yield
    await engine.dispose()


async def in_transaction() -> AsyncIterator[AsyncSession]:
    """Give a request one transaction: committed before the response is sent, rolled back if the endpoint raises."""
    async with make_session.begin() as session:
        yield session


InTransaction = Annotated[AsyncSession, Depends(in_transaction, scope="function")]


class NewOrder(BaseModel):
    customer: str
    lamps: PositiveInt


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def place(new: NewOrder, session: InTransaction) -> dict[str, int | str]:
    """Take an order.  Of one that the stock does not allow nothing is left, and no job."""
    order = Order(customer=new.customer, lamps=new.lamps)
    session.add(order)
    await session.flush()
    async with jobs.transaction(session) as tx:
        handle = await tx.enqueue(charge, order.number)
    left = update(Stock).where(Stock.item == "lamp").values(left=Stock.left - new.lamps).returning(Stock.left)
    if await session.scalar(left) < 0:
        raise HTTPException(409, "there are not so many lamps")
    return {"order": order.number, "job": handle.id}


@app.get("/orders/{number}")
async def show(number: int, session: InTransaction) -> dict[str, int | str]:
    order = await session.get(Order, number)
    if order is None:
        raise HTTPException(404, f"there is no order {number}")
    return {"customer": order.customer, "lamps": order.lamps, "state": order.state}
