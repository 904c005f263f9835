"""Tests of a Django project, run by Django's own runner on every database."""

from datetime import timedelta
from pathlib import Path
from unittest import mock, skipIf

from asgiref.sync import async_to_sync
from django import VERSION
from django.conf import settings
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.contrib.staticfiles.finders import find
from django.core.checks import run_checks
from django.db import connection, transaction
from django.test import Client, TestCase, TransactionTestCase, override_settings
from django.utils import timezone
from django.utils.formats import date_format

from onward import OptionError, State
from onward.integrations.django import app, onward_using, options, task, task_backends
from onward.integrations.django.management.commands.onward import ManageOnward
from onward.integrations.django.versions import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
    task_finished,
    task_started,
)
from shop import tasks
from shop.models import Order
from tests.waiting import eventually


def jobs_of(alias="default"):
    return task_backends[alias].jobs


class ShopTests(TransactionTestCase):
    """Django empties its own tables after each test, and not Onward's."""

    def setUp(self):
        for alias in ("default", "second", "elsewhere", "at_once"):
            jobs = jobs_of(alias)
            for record in jobs.list(limit=1000):
                jobs.cancel(record.id)
            jobs.prune(older_than=0, state=[State.COMPLETED, State.CANCELLED, State.DISCARDED])
        self.jobs = jobs_of()

    def stored(self, alias="default"):
        return [record.id for record in jobs_of(alias).list(state=["available", "scheduled"], limit=1000)]


class InOneDatabase(ShopTests):
    def test_a_task_is_rolled_back_with_its_transaction(self):
        with self.assertRaises(KeyError), transaction.atomic():
            Order.objects.create(label="lost")
            tasks.add.enqueue(1, 2)
            raise KeyError

        self.assertEqual((self.stored(), Order.objects.count()), ([], 0))

    def test_a_task_is_committed_with_its_transaction_and_not_before(self):
        with transaction.atomic():
            Order.objects.create(label="kept")  # SQLite: Django has the write lock, and another connection would wait
            result = tasks.add.enqueue(1, 2)
            self.assertEqual(self.stored(), [])

        self.assertEqual(self.stored(), [result.id])
        self.jobs.drain(raising=True)
        result.refresh()
        self.assertEqual((result.status, result.return_value), (TaskResultStatus.SUCCESSFUL, 3))

    def test_a_savepoint_is_rolled_back_alone(self):
        with transaction.atomic():
            kept = tasks.add.enqueue(1)
            with self.assertRaises(KeyError), transaction.atomic():
                tasks.add.enqueue(2)
                raise KeyError

        self.assertEqual(self.stored(), [kept.id])

    def test_a_request_that_raises_leaves_no_task(self):
        with self.assertRaises(ValueError):
            self.client.get("/order?raise")
        self.assertEqual(self.stored(), [])

        answer = self.client.get("/order")

        self.assertEqual(self.stored(), [answer.content.decode()])

    def test_async_code_enqueues_in_the_transaction_of_its_thread(self):
        with transaction.atomic():
            result = async_to_sync(tasks.aadd.aenqueue)(1, 2)
            self.assertEqual(self.stored(), [])
            async_to_sync(result.arefresh)()

        self.jobs.drain(raising=True)
        async_to_sync(result.arefresh)()
        self.assertEqual(result.return_value, 3)

    def test_a_result_can_be_read_before_the_commit(self):
        with transaction.atomic():
            result = tasks.add.enqueue(1)
            self.assertEqual(tasks.add.get_result(result.id), result)
            result.refresh()

        self.assertEqual(result.status, TaskResultStatus.READY)

    def test_manual_transactions_are_joined(self):
        transaction.set_autocommit(False)
        try:
            tasks.add.enqueue(1)
            transaction.rollback()
            kept = tasks.add.enqueue(2)
            transaction.commit()
        finally:
            transaction.set_autocommit(True)

        self.assertEqual(self.stored(), [kept.id])

    def test_without_a_transaction_a_task_is_stored_at_once_and_django_opens_no_connection(self):
        connection.close()

        result = tasks.add.enqueue(1)

        self.assertIsNone(connection.connection)
        self.assertEqual(self.stored(), [result.id])

    def test_a_task_completes_in_the_transaction_of_its_own_writes(self):
        result = tasks.in_one_commit.enqueue("both")

        self.jobs.drain(raising=True)

        result.refresh()
        self.assertEqual((result.return_value, Order.objects.get().label), ("both", "both"))


class InAnotherDatabase(ShopTests):
    """Each database has transactions of its own: only those of the jobs' own count."""

    databases = frozenset({"default", "second"})

    def test_its_own_transactions_are_joined(self):
        with self.assertRaises(KeyError), transaction.atomic(using="second"):
            tasks.add.using(backend="second").enqueue(1)
            raise KeyError

        self.assertEqual(self.stored("second"), [])

    def test_a_transaction_of_another_database_is_not(self):
        with self.assertRaises(KeyError), transaction.atomic():
            result = tasks.add.using(backend="second").enqueue(1)
            raise KeyError

        self.assertEqual(self.stored("second"), [result.id])


class Elsewhere(ShopTests):
    def test_a_task_waits_for_the_commit(self):
        with transaction.atomic():
            result = tasks.add.using(backend="elsewhere").enqueue(1)
            self.assertEqual(self.stored("elsewhere"), [])

        self.assertEqual(self.stored("elsewhere"), [result.id])

    def test_a_task_of_a_transaction_that_was_rolled_back_is_never_stored(self):
        with self.assertRaises(KeyError), transaction.atomic():
            tasks.add.using(backend="elsewhere").enqueue(1)
            raise KeyError

        self.assertEqual(self.stored("elsewhere"), [])

    def test_arguments_are_checked_before_the_commit(self):
        with self.assertRaisesMessage(TypeError, "its primary key"), transaction.atomic():
            tasks.add.using(backend="elsewhere").enqueue(object())

    def test_at_once_if_asked(self):
        with self.assertRaises(KeyError), transaction.atomic():
            result = tasks.add.using(backend="at_once").enqueue(1)
            raise KeyError

        self.assertEqual(self.stored("at_once"), [result.id])

    def test_results_belong_to_their_alias(self):
        result = tasks.add.using(backend="elsewhere").enqueue(1)

        with self.assertRaises(TaskResultDoesNotExist):
            tasks.add.get_result(result.id)


class Results(ShopTests):
    def test_every_run_is_shown_with_its_error_and_its_worker(self):
        result = tasks.patient.enqueue()

        while self.jobs.drain():
            pass

        result.refresh()
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertEqual([error.exception_class for error in result.errors], [KeyError] * 3)
        self.assertEqual((result.attempts, len(set(result.worker_ids))), (3, 1))
        self.assertLessEqual(result.enqueued_at, result.started_at)
        self.assertLess(result.started_at, result.last_attempted_at)

    @skipIf(VERSION[:2] == (6, 0), "its @task takes no further words")
    def test_attempts_backoff_and_time_out_in_djangos_words(self):
        result = tasks.stubborn.enqueue()
        while self.jobs.drain():
            pass

        result.refresh()
        self.assertEqual((result.status, result.attempts), (TaskResultStatus.FAILED, 3))
        definition = self.jobs.client.letters.registry.find("shop.tasks.stubborn").definition
        self.assertEqual((definition.max_retries, definition.timeout), (2, 30.0))

    def test_what_has_no_json_form_fails_the_run(self):
        result = tasks.returns_an_object.enqueue()

        self.jobs.drain()

        result.refresh()
        self.assertEqual(result.errors[0].exception_class, TypeError)
        self.assertIn("return plain data", result.errors[0].traceback)

    def test_an_exit_fails_the_run_and_not_the_worker(self):
        result = tasks.exits.enqueue()

        self.jobs.drain()

        result.refresh()
        self.assertEqual(result.errors[0].exception_class, SystemExit)

    def test_the_context_has_onwards_own(self):
        result = tasks.report.enqueue(0.5)

        self.jobs.drain(raising=True)

        result.refresh()
        self.assertEqual(result.return_value, [1, result.id])
        self.assertIsNotNone(self.jobs.get(result.id).progress)

    def test_queue_priority_and_instant_come_back(self):
        later = timezone.now() + timedelta(days=1)

        sent = tasks.add.using(queue_name="mail", priority=7, run_after=later).enqueue(1)

        found = tasks.add.get_result(sent.id)
        self.assertEqual((found.task.queue_name, found.task.priority), ("mail", 7))
        self.assertEqual(found.task.run_after, later)
        self.assertEqual(self.jobs.get(sent.id).state, State.SCHEDULED)

    def test_a_cancelled_task_has_failed_and_says_why(self):
        result = tasks.add.enqueue(1)

        self.jobs.cancel(result.id, "no longer wanted")

        result.refresh()
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertEqual(result.errors[0].exception_class_path, "onward.errors.JobCancelledError")
        self.assertIn("no longer wanted", result.errors[0].traceback)

    def test_naive_instants_where_django_has_them(self):
        with override_settings(USE_TZ=False, TIME_ZONE="America/Chicago"):
            later = timezone.now() + timedelta(days=1)
            sent = tasks.add.using(run_after=later).enqueue(1)
            found = tasks.add.get_result(sent.id)

        self.assertEqual(found.task.run_after, later)
        self.assertIsNone(found.enqueued_at.tzinfo)
        self.assertLess(
            abs(self.jobs.get(sent.id).not_before - timezone.now() - timedelta(days=1)), timedelta(minutes=1)
        )

    def test_a_call_that_is_enqueued_already_is_the_first(self):
        first = tasks.pack.enqueue(7)

        self.assertEqual(tasks.pack.enqueue(number=7, gift=True).id, first.id)
        self.assertEqual(onward_using(tasks.pack, unique_key="other").enqueue(7).args, [7])
        self.assertEqual(len(self.stored()), 2)

    def test_a_job_under_its_old_path_runs(self):
        handle = self.jobs.enqueue("old.tasks.add", {"args": [1], "kwargs": {"b": 2}})

        self.jobs.drain(raising=True)

        self.assertEqual(handle.result(timeout=5), 3)

    def test_secret_arguments_are_shown_to_nobody(self):
        result = tasks.login.enqueue("ann", "hunter2")

        self.jobs.drain()

        record = self.jobs.get(result.id)
        self.assertEqual(record.payload, {"args": ["ann", "***"], "kwargs": {}})
        self.assertNotIn("hunter2", record.errors[0].message)
        self.assertEqual(tasks.login.get_result(result.id).args, ["ann", "hunter2"])

    def test_an_unknown_id_does_not_exist(self):
        for wrong in ("123", "0" * 32, ""):
            with self.subTest(wrong), self.assertRaises(TaskResultDoesNotExist):
                tasks.add.get_result(wrong)


class Signals(ShopTests):
    def setUp(self):
        super().setUp()
        self.heard = []
        for word, signal in (("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished)):

            def hear(sender, task_result, word=word, **_):
                self.heard.append((word, task_result.status.value, task_result.id))

            signal.connect(hear, weak=False)
            self.addCleanup(signal.disconnect, hear)

    def test_a_run_that_succeeds(self):
        for each in (tasks.write, tasks.awrite):
            self.heard.clear()
            result = each.enqueue("x")
            self.jobs.drain(raising=True)
            self.assertEqual(
                self.heard,
                [
                    ("enqueued", "READY", result.id),
                    ("started", "RUNNING", result.id),
                    ("finished", "SUCCESSFUL", result.id),
                ],
            )

    def test_a_retried_task_is_finished_once(self):
        result = tasks.patient.enqueue()
        while self.jobs.drain():
            pass

        self.assertEqual([word for word, *_ in self.heard], ["enqueued", *["started"] * 3, "finished"])
        self.assertEqual(self.heard[-1], ("finished", "FAILED", result.id))

    def test_elsewhere_a_task_is_announced_after_the_commit(self):
        with transaction.atomic():
            tasks.add.using(backend="elsewhere").enqueue(1)
            self.assertEqual(self.heard, [])

        self.assertEqual([word for word, *_ in self.heard], ["enqueued"])

    def test_a_cancelled_task_is_finished(self):
        result = tasks.add.enqueue(1)
        self.jobs.cancel(result.id)

        self.jobs.telemetry.flush()

        self.assertEqual(self.heard[-1], ("finished", "FAILED", result.id))

    def test_a_receiver_that_raises_fails_no_task(self):
        def broken(**_):
            raise RuntimeError

        task_started.connect(broken)
        self.addCleanup(task_started.disconnect, broken)
        result = tasks.add.enqueue(1)

        self.jobs.drain(raising=True)

        result.refresh()
        self.assertEqual(result.return_value, 1)


class BadInput(ShopTests):
    def test_a_path_that_is_too_long_for_a_name(self):
        def far_away():
            pass

        far_away.__module__, far_away.__qualname__ = "a" * 150, "b" * 60

        with self.assertRaisesMessage(InvalidTask, "a module with a shorter path"):
            task(far_away)

    def test_arguments_that_do_not_travel(self):
        for wrong in (object(), {1, 2}, timezone.now(), Order(label="x")):
            with self.subTest(wrong), self.assertRaisesMessage(TypeError, "of a model its primary key"):
                tasks.add.enqueue(wrong)
        with self.assertRaisesMessage(ValueError, "travel as JSON"):
            tasks.add.enqueue(b"\xff")
        self.assertEqual(self.stored(), [])

    def test_a_queue_with_a_bad_name(self):
        with self.assertRaisesMessage(InvalidTask, "shop.tasks.add"):
            tasks.add.using(queue_name="a queue").enqueue(1)

    def test_options_in_onwards_words_where_django_has_its_own(self):
        with self.assertRaisesMessage(TypeError, "queue_name"):
            options(queue="mail")
        with self.assertRaisesMessage(TypeError, "run_after"):
            onward_using(tasks.add, delay=5)
        with self.assertRaisesMessage(TypeError, "below @task"):
            options(max_retries=1)(tasks.add)

    def test_a_project_without_the_alias_default_has_help_and_is_told_to_choose(self):
        with override_settings(TASKS={"mail": settings.TASKS["elsewhere"], "web": settings.TASKS["second"]}):
            for words in ([], ["--help"], ["version"]):
                self.assertEqual(ManageOnward()._command(words)[-1], (words or ["onward"])[-1])
            self.assertIn("onward.integrations.django.app:web", ManageOnward()._command(["job", "list", "--alias=web"]))
            with self.assertRaisesMessage(OptionError, "no alias 'default' in TASKS: choose one, --alias mail or web"):
                ManageOnward()._command(["job", "list"])

    def test_an_alias_may_be_called_jobs(self):
        given = {"default": {"BACKEND": "no.such.Backend"}, "jobs": settings.TASKS["elsewhere"]}
        with override_settings(TASKS=given):
            self.assertIs(app.jobs, jobs_of("jobs"))
        self.assertIs(app.jobs, jobs_of("default"))

    def messages(self, **options_):
        given = {"default": {"BACKEND": "onward.integrations.django.OnwardBackend", "OPTIONS": options_}}
        with override_settings(TASKS=given):
            return {
                message.id: str(message.msg)
                for message in run_checks(include_deployment_checks=True)
                if "onward" in (message.id or "")
            }

    def test_checks_name_what_is_wrong_and_the_fix(self):
        self.assertIn("default_max_retrys", self.messages(default_max_retrys=3)["onward.E003"])
        self.assertIn("OPTIONS['url']", self.messages(database="nowhere")["onward.E001"])
        self.assertIn("postgres//x", self.messages(url="postgres//x")["onward.E003"])
        self.assertIn("shop.tasks.ad'", self.messages(tasks={"shop.tasks.ad": {"max_retries": 1}})["onward.W003"])
        self.assertIn("shop.models.Order", self.messages(aliases={"old.order": "shop.models.Order"})["onward.W003"])
        self.assertIn("max_retrys", self.messages(tasks={"shop.tasks.add": {"max_retrys": 1}})["onward.E003"])
        self.assertEqual(set(self.messages()), {"onward.W001", "onward.I001"})
        self.assertEqual(set(self.messages(default_max_retries=3)), {"onward.I001"})
        self.assertIn("roll back with them", self.messages()["onward.I001"])
        self.assertIn("after its commit", self.messages(url="sqlite:///x.db")["onward.I001"])
        self.assertIn("at once", self.messages(url="sqlite:///x.db", on_commit=False)["onward.I001"])

    def test_connections_that_are_kept_for_ever_are_told_of(self):
        """SQLite's are files: nobody runs out of them."""
        with mock.patch.dict(connection.settings_dict, CONN_MAX_AGE=None):
            self.assertEqual("onward.W002" in self.messages(), connection.vendor != "sqlite")

    @skipIf(VERSION[:2] == (6, 0), "its @task takes no further words")
    def test_a_word_that_task_does_not_take_names_the_one_to_write(self):
        for word, fix in (
            ("max_attempt", "did you mean 'max_attempts'"),
            ("max_retries", r"write @options\(max_retries=…\) below it"),
            ("queue", r"@task\(queue_name=…\)"),
            ("lanes", "it knows backend, backoff"),
        ):
            with self.assertRaisesRegex(OptionError, f"@task takes no '{word}'.*{fix}"):
                task(**{word: 1})(tasks.add.func)


class Connections(ShopTests):
    def test_a_thousand_tasks_leave_no_connection_open(self):
        connection.ensure_connection()
        before = self.open_connections()
        with transaction.atomic():
            for number in range(800):
                tasks.write.enqueue(str(number))
            for number in range(200):
                tasks.awrite.enqueue(str(number))
        jobs = jobs_of()
        with jobs.worker(concurrency=4):
            last = tasks.write.using(priority=-100).enqueue("last")
            jobs.handle(last.id).result(timeout=None)  # for as long as the test of this project may take
        jobs.drain()  # those that still ran beside the last one
        self.assertEqual(jobs.counts()[State.COMPLETED], 1001)
        self.assertEqual(Order.objects.count(), 1001)

        task_backends["default"].application.close()  # with the pool of Onward's own
        eventually(lambda: self.open_connections() <= before, 200, self.open_connections)  # a server notices later

    def open_connections(self):
        """How many connections of Django's there are, without those of Onward's pool."""
        task_backends["default"].application.close()
        statement = {
            "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()",
            "mysql": "SELECT count(*) FROM information_schema.processlist WHERE db = database()",
        }.get(connection.vendor)
        if statement is None:
            connection.close()  # SQLite keeps the files of closed connections until the last of a process is closed
            file = Path(connection.settings_dict["NAME"]).resolve()
            return sum(each.resolve() == file for each in Path("/proc/self/fd").iterdir())
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()[0]


class RolledBack(TestCase):
    def test_a_test_case_takes_its_tasks_away(self):
        result = tasks.add.enqueue(1)

        self.assertEqual(tasks.add.get_result(result.id).status, TaskResultStatus.READY)
        self.assertIsNone(jobs_of().get(result.id))


class AdminPages(ShopTests):
    def setUp(self):
        super().setUp()
        self.looker = User.objects.create_user("looker", password="x", is_staff=True)
        self.looker.user_permissions.add(Permission.objects.get(codename="view_job"))
        self.client.force_login(self.looker)

    def page_of(self, result):
        return f"/admin/onward/job/default_3A{result.id}/change/"

    def test_jobs_are_listed_by_filters_page_by_page(self):
        with transaction.atomic():
            for number in range(51):
                tasks.add.enqueue(number)
            tasks.pack.using(queue_name="mail").enqueue(1)

        first = self.client.get("/admin/onward/job/").content.decode()
        mails = self.client.get("/admin/onward/job/?queue=mail&state=available").content.decode()

        self.assertEqual(first.count("/change/"), 50)
        self.assertIn("Older jobs", first)
        self.assertIn("shop.tasks.pack", mails)
        self.assertNotIn("shop.tasks.add", mails)
        self.assertContains(self.client.get("/admin/onward/job/?state=gone"), "errornote")
        self.assertContains(self.client.get("/admin/"), "/admin/onward/job/")

    def test_a_job_is_shown_with_its_runs_and_without_its_secrets(self):
        result = tasks.login.enqueue("ann", "hunter2")
        self.jobs.drain()

        page = self.client.get(self.page_of(result))

        self.assertContains(page, "ValueError")
        self.assertNotContains(page, "hunter2")
        self.assertContains(page, "gave up after 1 attempt")
        self.assertContains(page, "manage.py onward dead canary")
        self.assertNotContains(page, "Retry now")
        self.assertEqual(self.client.get(self.page_of(result).replace(result.id, "0" * 32)).status_code, 404)

    def test_arguments_of_a_job_that_is_no_task_here_are_hidden(self):
        handle = self.jobs.enqueue("another.service.login", ["ann", "hunter2"])

        page = self.client.get(f"/admin/onward/job/{quote(f'default:{handle.id}')}/change/")

        self.assertContains(page, "it is not known which arguments are secret")
        self.assertNotContains(page, "hunter2")

    def test_a_result_is_shown_with_its_secrets_masked(self):
        result = tasks.session.enqueue("ann")
        self.jobs.drain()

        page = self.client.get(self.page_of(result))

        self.assertContains(page, "&quot;user&quot;: &quot;ann&quot;")
        self.assertNotContains(page, "hunter2")

    def test_only_operators_retry_and_cancel_and_the_audit_names_them(self):
        result = tasks.add.using(run_after=timezone.now() + timedelta(days=1)).enqueue(1)
        self.assertEqual(self.client.post(self.page_of(result), {"act": "retry"}).status_code, 403)

        self.looker.user_permissions.add(Permission.objects.get(codename="operate_job"))
        self.client.post(self.page_of(result), {"act": "retry"})

        self.assertEqual(self.jobs.get(result.id).state, State.AVAILABLE)
        self.client.post(self.page_of(result), {"act": "cancel"})
        self.assertEqual(self.jobs.get(result.id).state, State.CANCELLED)
        self.assertEqual({entry.who for entry in self.jobs.audit()} & {"looker"}, {"looker"})

    def test_the_list_leads_to_the_dashboard_where_it_is_mounted(self):
        self.assertNotContains(self.client.get("/admin/onward/job/"), "Dashboard")

        with override_settings(ROOT_URLCONF="shop.urls_with_dashboard"):
            self.assertContains(self.client.get("/admin/onward/job/"), '<a href="/ops/">Dashboard</a>')
            self.assertContains(self.client.get("/ops/"), "<title>Onward</title>")

    def test_the_pages_are_styled_by_files_and_not_in_line(self):
        """A content security policy without `unsafe-inline` leaves them as they are."""
        for address in ("/admin/onward/job/", self.page_of(tasks.add.enqueue(1))):
            page = self.client.get(address).content.decode()
            self.assertIn("onward/admin.css", page)
            self.assertNotRegex(page.partition('id="content-main"')[2].partition("</main>")[0], "<style|style=|<script")
        self.assertIsNotNone(find("onward/admin.css"))

    def test_instants_are_in_the_zone_of_the_settings(self):
        with override_settings(USE_TZ=False, TIME_ZONE="Asia/Kolkata"):
            result = tasks.add.enqueue(1)
            short, long = (date_format(result.enqueued_at, f"{size}DATETIME_FORMAT") for size in ("SHORT_", ""))

            self.assertContains(self.client.get("/admin/onward/job/"), short)
            self.assertContains(self.client.get(self.page_of(result)), long)

    def test_strangers_see_nothing(self):
        stranger = User.objects.create_user("stranger", password="x", is_staff=True)
        client = Client()
        client.force_login(stranger)

        self.assertEqual(client.get("/admin/onward/job/").status_code, 403)
