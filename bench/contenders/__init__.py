"""One module per contender.  Each runs under the interpreter that has its package, driven by `bench.drive`.

CONFIGS                    ways to run its workers, by label: all are tried, the fastest is measured
reset()                    begin with an empty file
opened()                   a context that gives the store to put jobs into
enqueue(store, n)          store n jobs one by one, each durable before the next
bulk(store, n)             store n jobs by its bulk interface, if it has one
crowd(store, n, threads)   store n jobs one by one from many threads, if that is worth measuring
sender()                   a function that enqueues one job, for measuring its pick-up
serve(config)              work until killed
processes(config)          how many such workers to start
"""
