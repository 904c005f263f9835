"""Names that other libraries have for Onward's options: an error about one names Onward's own."""

from __future__ import annotations

__all__ = ["METHODS", "OPTIONS"]

OPTIONS = {
    **dict.fromkeys(("countdown", "defer_by", "delay_seconds", "run_in", "schedule_in", "wait"), "delay"),
    **dict.fromkeys(("defer_until", "eta", "run_at", "schedule_at", "scheduled_at", "scheduled_for"), "at"),
    **dict.fromkeys(("job_timeout", "soft_time_limit", "time_limit"), "timeout"),
    **dict.fromkeys(("attempts", "max_tries", "tries"), "max_attempts"),
    **dict.fromkeys(("autoretry", "retries", "retry_limit"), "max_retries"),
    **dict.fromkeys(("retry_backoff", "backoff", "retry_policy"), "retry"),
    **dict.fromkeys(("expires_at", "expires_in", "ttl"), "expires"),
    **dict.fromkeys(("channel", "queue_name", "routing_key"), "queue"),
    **dict.fromkeys(("dedup_key", "job_id", "lock", "task_id", "unique"), "unique_key"),
}

_CALL, _LATER, _WITH = ".enqueue(…)", ".using(delay=…).enqueue(…)", ".using(…).enqueue(…)"
METHODS = {
    **dict.fromkeys(("apply", "defer", "delay", "dispatch", "kiq", "perform_async", "push", "send", "submit"), _CALL),
    **dict.fromkeys(("enqueue_in", "perform_in", "schedule", "delayed"), _LATER),
    **dict.fromkeys(("enqueue_at", "perform_at"), ".using(at=…).enqueue(…)"),
    **dict.fromkeys(("apply_async", "configure", "message_with_options", "options", "send_with_options"), _WITH),
    **dict.fromkeys(("defer_async", "send_async"), ".aenqueue(…)"),
    **dict.fromkeys(("batch_defer", "map", "starmap"), ".enqueue_many(…)"),
}
