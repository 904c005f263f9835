"""Series of numbers: what workers have counted and how deep queues were, minute by minute, for seven days.

Read `measured` (what one row of a series holds, and how rows are added up), `sampling` (who sends rows, and who merges
them), `points` (the rows as people read them).  The store keeps the rows without reading them (`onward.contract.samples`).
"""
