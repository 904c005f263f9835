"""What a job is: values and pure rules.

    definition registry arguments unique_key    a function, and how it is called
    envelope payload_limits secrets             a call, as it travels
    states lease settlement                     where a job is, permission to run it, and what ends that
    signals outcome retry                       what a handler raised, and what it means
    context results                             what a handler is given, and what it returned

Nothing here talks to a store; every room above may import it.
"""
