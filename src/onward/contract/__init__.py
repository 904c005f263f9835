"""The contract of stores: its text, its verbs, and the values that go in and come out.

Backends implement it, and every room above calls it, through the door `onward.backend`; no module here talks to a
store.
Read `backend` first, whose text is the contract; then `values`, `inspection` with `snapshot`, `samples`, `deaths` (groups
of dead jobs) and `audit`, `description` (of a worker) and `capabilities`.  Some stores do more: `notes` (steps and signals),
`schedules`, `limits` (lanes), `flows`, `transactions` (join the user's), `companion` (stand beside a broker), `transfer`
(give jobs to another store).
"""
