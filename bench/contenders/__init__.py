"""One module per contender.  Each runs under the interpreter that has its package, driven by `bench.drive`.

CONFIGS                        ways to run its workers, by label: all are tried, the fastest is measured
fill(n)                        store n jobs by the fastest way there is, on an empty file
enqueue(n)                     store n jobs one by one, each durable before the next
bulk(n)                        store n jobs by its bulk interface, if it has one
crowd(n, threads)              store n jobs one by one from many threads, if that is worth measuring
serve(config)                  work until killed
processes(config)              how many such workers to start
"""
