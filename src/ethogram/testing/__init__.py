"""The pytest plug-in: every marked test is a task, its repeats are attempts, and the session gets one verdict.

A thin edge like `cli`: attempts are carried out by the harness, the verdict is that of `gate`. pytest loads `plugin` in
every session, so that imports nothing but pytest; the other modules are imported once a marked test is about to run.
"""
