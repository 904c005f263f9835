"""The stores: one package for each, which keeps the contract of `onward.backend` and nothing else.

The wiring opens a store by `opening`; all others call the verbs of the contract.  Stores do not import each other, but for
`sync`, which is `memory` on a clock that jumps.  Several share: `pool` (connections of a process), `options` (of a
URL), `unreachable` (what to do about a server that is away), `damage` (rows that no worker wrote), `schedules` (the next
version of a row), `sql/`, `broker/`, and `companion/` (a broker with a database beside it).
Read `memory/` first, it is the shortest; then `sqlite/`, then the servers `postgres/`, `mysql/` and `redis/`, then the
brokers `beanstalk/` and `servicebus/`.
"""
