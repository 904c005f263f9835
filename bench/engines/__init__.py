"""One module per engine that Onward runs on.

TITLE                 its heading on the page
PACKAGES              the peers' packages, whose versions are shown
run(options)          measure; everything that the page and the figures need, as JSON
figures(results)      each figure that was asked for, its ratio and its goal
fairness(results)     who was measured under which conditions
"""
