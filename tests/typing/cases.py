"""What a type checker says about user code.

A line that ends in a comment `E: <text>` must be refused with that text in the message; every other line must be
accepted.  Nothing here is called: the lines are checked, not run.
"""

from collections.abc import AsyncIterator, Iterator

from onward import AsyncJobContext, Exponential, FlowHandle, JobContext, JobHandle, Onward
from onward.errors import OnwardError

jobs = Onward("memory://")


@jobs.job
def add(x: int, y: int = 1) -> int:
    return x + y


@jobs.job(queue="mail", max_retries=5, retry=Exponential(base=5, max=300))
def send(to: str, *, subject: str = "hello") -> None: ...


@jobs.job(timeout=30)
async def greet(ctx: JobContext, name: str) -> str:
    return f"hello {name}, attempt {ctx.attempt}"


def a_job_is_still_its_function() -> None:
    total: int = add(1, 2)
    text: str = add(1)  # E: Incompatible types in assignment
    add("a")  # E: Argument 1


def arguments_are_those_of_the_function() -> None:
    add.enqueue(1)
    add.enqueue(1, y=2)
    add.enqueue("a")  # E: Argument 1
    add.enqueue(1, z=2)  # E: Unexpected keyword argument "z"
    add.enqueue()  # E: Missing positional argument "x"
    send.enqueue("ada", subject="hi")
    send.enqueue("ada", "hi")  # E: Too many


def the_context_is_filled_in_not_passed(ctx: JobContext) -> None:
    greet.enqueue("ada")
    greet.enqueue(name="ada")
    greet.enqueue(ctx, "ada")  # E: Too many
    greet.enqueue(1)  # E: Argument 1


def options_are_checked() -> None:
    @jobs.job(quue="mail")  # E: quue
    def misspelt(x: int) -> int:
        return x

    add.using(priority=10, delay="5m", unique_key="k").enqueue(1)
    add.using(prioritee=1)  # E: prioritee
    add.using(unique_key=None, idempotency_ttl="7d").enqueue(1)
    add.using(unique_key=lambda x: f"{x}")  # E: incompatible type
    add.using(priority="high")  # E: incompatible type
    add.using(priority=10).enqueue("a")  # E: Argument 1
    greet.using(priority=10).enqueue("ada")


def a_unique_key_is_a_template_or_a_function_of_the_arguments() -> None:
    @jobs.job(unique_key="x:{x}", unique_strategy="cancel_existing")
    def by_template(x: int) -> int:
        return x

    @jobs.job(unique_key=lambda x: f"x:{x}")
    def by_function(x: int) -> int:
        return x

    @jobs.job(unique_key=42)  # E: No overload variant
    def by_number(x: int) -> int:
        return x

    @jobs.job(unique_strategy="replace")  # E: No overload variant
    def by_force(x: int) -> int:
        return x

    by_template.enqueue(1)
    by_function.enqueue("a")  # E: Argument 1


def a_handle_knows_the_type_of_the_result() -> None:
    handle: JobHandle[int] = add.enqueue(1)
    number: int = add.enqueue(1).result()
    text: str = add.enqueue(1).result()  # E: Incompatible types in assignment
    # An async job's result is what it returns, not the coroutine.
    greeting: str = greet.enqueue("ada").result(timeout=10)
    length: int = greet.enqueue("ada").result()  # E: Incompatible types in assignment


async def the_async_face_is_typed_too() -> None:
    handle = await add.aenqueue(1, y=2)
    number: int = await handle.aresult()
    text: str = await handle.aresult()  # E: Incompatible types in assignment
    await add.aenqueue("a")  # E: Argument 1


def the_results_of_many_have_their_type() -> None:
    handles: list[JobHandle[int]] = [add.enqueue(1), add.enqueue(2)]
    numbers: list[int] = jobs.results(handles, timeout=10)
    texts: list[str] = jobs.results(handles)  # E: Argument 1
    either: list[int | OnwardError] = jobs.results(handles, return_exceptions=True)
    only: list[int] = jobs.results(handles, return_exceptions=True)  # E: Incompatible types in assignment


async def the_results_of_many_can_be_awaited() -> None:
    numbers: list[int] = await jobs.aresults([await add.aenqueue(1)])


def many_at_once() -> None:
    add.enqueue_many([(1,), (2,), add.call(3, y=4)])
    add.call("a")  # E: Argument 1


def the_application_enqueues_a_job_with_its_arguments() -> None:
    number: int = jobs.enqueue(add, 1, y=2).result()
    text: str = jobs.enqueue(add, 1).result()  # E: Incompatible types in assignment
    jobs.enqueue(add, "a")  # E: No overload variant
    jobs.enqueue(add, 1, z=2)  # E: Unexpected keyword argument "z"
    jobs.enqueue(add.using(delay="5m"), 1)
    jobs.enqueue("elsewhere", {"a": 1}, delay="5m")
    jobs.enqueue("elsewhere", payload={"a": 1})


def words_from_elsewhere_are_no_attributes() -> None:
    add.delay(1)  # E: has no attribute "delay"


@jobs.around
def hook(ctx: JobContext) -> Iterator[None]:
    yield


@jobs.around(only="async")
async def async_hook(ctx: JobContext) -> AsyncIterator[None]:
    yield


@jobs.stamp
def stamp(job: str) -> dict[str, str]:
    return {"for": job}


def no_hook(ctx: JobContext) -> None: ...


def no_stamp(job: int) -> dict[str, str]:
    return {}


def hooks_are_still_their_functions() -> None:
    stamped: dict[str, str] = stamp("send")
    jobs.around(hook, only="async")
    jobs.around(no_hook)  # E: Value of type variable
    jobs.around(only="sync")(hook)  # E: No overload variant
    jobs.stamp(no_stamp)  # E: Value of type variable


def charge(amount: int, *, key: str = "") -> str:
    return f"receipt for {amount}, {key}"


async def refund(receipt: str) -> int:
    return len(receipt)


@jobs.job
def order(ctx: JobContext, amount: int) -> str:
    receipt: str = ctx.step("charge", charge, amount, key=ctx.key("charge"))
    number: int = ctx.step("refund", refund, receipt)
    wrong: int = ctx.step("again", charge, amount)  # E: Incompatible types in assignment
    ctx.step("too many", charge, amount, 7)  # E: No overload variant
    ctx.sleep("cool-off", "3d")
    approved: bool | None = ctx.wait_for("approved", timeout="7d", returns=bool)
    surely: bool = ctx.wait_for("sure", timeout="7d", returns=bool)  # E: Incompatible types in assignment
    anything = ctx.wait_for("anything", timeout=60)
    ctx.wait_for("for ever")  # E: No overload variant
    return receipt


@jobs.job(max_retries=5)
async def order_async(ctx: AsyncJobContext, amount: int) -> str:
    receipt: str = await ctx.step("charge", charge, amount)
    number: int = await ctx.step("refund", refund, receipt)
    unawaited: str = ctx.step("again", charge, amount)  # E: Incompatible types in assignment
    await ctx.sleep("cool-off", 60)
    approved: bool | None = await ctx.wait_for("approved", timeout="7d", returns=bool)
    return receipt


def the_async_context_is_filled_in_too(ctx: AsyncJobContext) -> None:
    order.enqueue(7)
    order_async.enqueue(7)
    order_async.enqueue(ctx, 7)  # E: Too many
    told: bool = jobs.signal("id", "approved", True, again=True)


@jobs.job
def summed(ctx: JobContext) -> int:
    first: int = ctx.result_of(add)
    wrong: str = ctx.result_of(add)  # E: Incompatible types in assignment
    by_name: str = ctx.result_of("add")
    every: Iterator[int] = ctx.results_of(add)
    ctx.flow.map(add, [(1,), (2,)], node="add")
    ctx.flow.add(add.call("a"))  # E: Argument 1
    return sum(ctx.results_of(add))


@jobs.job
async def summed_async(ctx: AsyncJobContext) -> int:
    first: int = await ctx.result_of(add)
    unawaited: int = ctx.result_of(add)  # E: Incompatible types in assignment
    every: AsyncIterator[int] = ctx.results_of(add)
    number: int = await ctx.flow.map(add, [(1,)], node="add")
    return sum([each async for each in every])


def flows_know_what_their_nodes_result_in() -> None:
    flow = jobs.flow("typed", stop_on_failure=True)
    node = flow.add(add, 1)
    flow.map(greet, [("ada",)], after=[node, "other"], when="finished")
    flow.add(send, after=node, when="fails")  # E: No overload variant
    handle: FlowHandle = flow.enqueue()
    total: int = handle.result_of(node)
    text: str = handle.result_of(node)  # E: Incompatible types in assignment
    every: Iterator[str] = handle.results_of(greet)
    jobs.chain(add.call(1), send.call("ada"))
    jobs.chain(add)  # E: Argument 1
    with jobs.batch("typed", on_success=send.call("ada")) as batch:
        batch.add_many(add, ((n,) for n in range(3)))
    state: str = batch.handle.wait(5)
