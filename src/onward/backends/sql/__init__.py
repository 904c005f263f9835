"""Modules that the SQL stores share.  Only `sqlite/`, `postgres/` and `mysql/` import it.

Read `sections` (a ``queries.sql`` by name) and `statements` (asking by name) first; then `server`, the verbs of PostgreSQL
and MySQL; then what each verb needs: `enqueueing`, `turns`, `settling`, `holds`, `waiting`, `notes`, `schedules`, `limits`;
flows: `flow_rows`, `flow_members` (enqueueing them), `flows` (the look when one has ended), `flow_in_look` (a flow during
it), `flow_verbs`; then `inspection`, `overview`, `deaths`, `audit`, `samples`, `rows`, `transfer`; then `migrations`,
`health`, `errors`; and last `damage` and `text`, for rows that no worker wrote.
"""
