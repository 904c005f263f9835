"""At the start a server is refused that would lose jobs, and the message says how to mend it."""

import contextlib
import subprocess
from pathlib import Path

import pytest

from onward.backends.redis import RedisBackend, server
from onward.errors import BackendMisconfigured, BackendUnavailable
from onward.testing.contract.builders import a_claim, a_lease, an_envelope
from tests.servers.connecting import connected
from tests.servers.redis import free_port, redis_server

LOSSY = {
    "eviction": ({"maxmemory-policy": "allkeys-lru"}, "CONFIG SET maxmemory-policy noeviction"),
    "no file": ({"appendonly": "no"}, "CONFIG SET appendonly yes"),
}


@contextlib.contextmanager
def told(client, settings):
    before = {name: client.config_get(name)[name] for name in settings}
    for name, value in settings.items():
        client.config_set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            client.config_set(name, value)


@pytest.mark.promise("F35")
@pytest.mark.parametrize(("settings", "fix"), LOSSY.values(), ids=LOSSY.keys())
def test_a_server_that_would_lose_jobs_is_refused_and_told_the_fix(own_server, open_backend, settings, fix):
    with own_server.client() as client, told(client, settings), pytest.raises(BackendMisconfigured, match=fix):
        open_backend(own_server.url())


@pytest.mark.promise("F35")
@pytest.mark.parametrize(("settings", "fix"), LOSSY.values(), ids=LOSSY.keys())
def test_who_says_that_jobs_may_be_lost_is_let_in_and_not_called_durable(own_server, open_backend, settings, fix):
    with own_server.client() as client, told(client, settings):
        backend = open_backend(own_server.url(allow_lossy="true"))

        assert not backend.capabilities.durable
        (check,) = [check for check in backend.health() if check.name == "durability"]
        assert (check.status, fix in check.detail) == ("fail", True)


@pytest.mark.promise("F35", "F38")
@pytest.mark.parametrize(("fsync", "durable", "status"), [("always", True, "ok"), ("everysec", False, "warn")])
def test_what_a_power_cut_may_take_is_said(own_server, open_backend, fsync, durable, status):
    with own_server.client() as client, told(client, {"appendfsync": fsync}):
        backend = open_backend(own_server.url())

        assert backend.capabilities.durable is durable
        assert {check.name: check.status for check in backend.health()}["durability"] == status


@pytest.mark.promise("F35")
def test_those_who_work_go_on_when_the_server_is_set_up_otherwise_meanwhile(own_server, open_backend, caplog):
    backend = open_backend(own_server.url())
    with own_server.client() as client, told(client, {"maxmemory-policy": "allkeys-lru"}):
        client.client_kill_filter(_type="normal", skipme=True)

        assert backend.enqueue([an_envelope()])[0].created

    assert "maxmemory-policy is allkeys-lru" in caplog.text


@pytest.mark.promise("F35")
def test_a_server_that_still_reads_its_file_is_not_taken_for_one_without(monkeypatch, open_backend):
    """While it loads, it says of itself that it appends to none."""
    monkeypatch.setattr(server, "inspect", lambda _: server.Server(loading=True, appends=False))

    with pytest.raises(BackendUnavailable, match="still reading its file"):
        open_backend()


def test_a_replica_is_refused(own_server, redis, open_backend):
    port = free_port()
    with redis_server(redis.product, port=port), own_server.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", port)

        with pytest.raises((BackendMisconfigured, BackendUnavailable), match="name the primary server"):
            open_backend(own_server.url())


def test_a_wrong_password_is_a_mistake_of_the_url_and_is_not_repeated(own_server, open_backend):
    with own_server.client() as client:
        client.config_set("requirepass", "right")
        url = own_server.url()

        with pytest.raises(BackendMisconfigured) as raised:
            open_backend(url.replace("://", "://:hunter2@"))
        with pytest.raises(BackendMisconfigured):
            open_backend(url)

        assert "hunter2" not in str(raised.value)
        assert open_backend(url.replace("://", "://:right@")).enqueue([an_envelope()])[0].created


def test_namespaces_do_not_see_each_other(open_backend):
    ours, theirs = open_backend(), open_backend(namespace="other")

    ours.enqueue([an_envelope()])

    assert sum(theirs.counts().values()) == 0


def test_all_keys_of_a_namespace_lie_in_one_slot(backend, open_backend, raw):
    backend.enqueue([an_envelope(unique_key="{k}", queue="a"), an_envelope(delay=5, expires_at=1)])
    open_backend(namespace="other").enqueue([an_envelope()])

    assert {key[: key.index(b"}") + 1] for key in raw.scan_iter()} == {b"{onward}", b"{onward:other}"}


@pytest.mark.promise("F21")
def test_nothing_is_stored_that_would_expire_by_itself(backend, raw, clock):
    backend.enqueue([an_envelope(), an_envelope(delay=3600, idempotency_key="k")])
    (lease,) = backend.claim(a_claim())
    backend.nack(lease, 86_400 * 30)

    assert {raw.ttl(key) for key in raw.scan_iter()} == {-1}


def test_a_server_that_hides_its_configuration_is_used(own_server, open_backend):
    with own_server.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "-config")
        client.close()

    backend = open_backend(own_server.url())

    assert backend.enqueue([an_envelope()])[0].created
    assert not backend.capabilities.durable  # as it cannot be seen


def test_a_backend_that_was_closed_says_so(open_backend):
    backend = open_backend()
    backend.close()

    with pytest.raises(Exception, match="closed"):
        backend.counts()


@pytest.mark.promise("CVE-2025-49844")
def test_a_user_who_may_no_more_than_the_page_says_is_enough(own_server, open_backend):
    page = Path(__file__).parents[3] / "docs" / "redis.md"
    (line,) = [line for line in page.read_text().splitlines() if line.startswith("ACL SETUSER")]
    with own_server.client() as client:
        client.execute_command(*line.split())
    backend = open_backend(own_server.url().replace("://", "://onward:secret@"))

    lease = a_lease(backend)
    backend.wait(["default"], 0)
    backend.wait(["other"], 0.01)

    assert backend.ack(lease).applied
    assert backend.capabilities.durable
    assert {check.status for check in backend.health()} == {"ok"}


def test_a_server_is_reached_through_tls_and_its_certificate_is_checked(redis, open_backend):
    if redis.product == "valkey":
        pytest.skip("this build of Valkey has no TLS; the client is the same")
    key, certificate = _certificate(redis.folder)
    port = free_port()
    settings = {"tls_port": port, "tls_cert_file": certificate, "tls_key_file": key, "tls_auth_clients": "no"}
    with redis_server(redis.product, **settings):
        url = f"rediss://localhost:{port}"

        assert open_backend(f"{url}?ssl_ca_certs={certificate}").enqueue([an_envelope()])[0].created
        with pytest.raises((BackendMisconfigured, BackendUnavailable), match=r"(?i)certificate"):
            open_backend(url)
        elsewhere = f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificate}"  # which the certificate does not name
        with pytest.raises((BackendMisconfigured, BackendUnavailable), match=r"(?i)certificate"):
            open_backend(elsewhere)
        assert open_backend(f"{elsewhere}&ssl_check_hostname=false").enqueue([an_envelope()])[0].created


def _certificate(folder):
    """Where the server may read it."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run(
        [*command, "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    key.chmod(0o644)
    return key, certificate


def test_a_server_that_is_not_there_was_asked_nothing():
    with pytest.raises(BackendUnavailable, match=r"^redis://127\.0\.0\.1:\d+/0: cannot be reached") as refused:
        connected(RedisBackend.from_url(f"redis://:secret@127.0.0.1:{free_port()}/0"))

    assert "unknown" not in str(refused.value)
    assert "secret" not in str(refused.value)
