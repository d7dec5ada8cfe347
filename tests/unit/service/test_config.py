"""`weft.toml`: strict, with errors that name the place and never a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import InvalidSetting
from weft.service.config import Config, Limits, read_config, token_of

ENGINE = '[engine]\npath = "state"\n'


def config(tmp_path: Path, text: str, **server: object) -> Config:
    path = tmp_path / "weft.toml"
    path.write_text(text, encoding="utf-8")
    return read_config(path, **server)


def test_only_the_path_of_the_engine_is_needed(tmp_path: Path) -> None:
    found = config(tmp_path, ENGINE)
    assert found.engine.path == tmp_path / "state"
    assert (found.server.host, found.server.port) == ("127.0.0.1", 8080)


def test_the_example_of_the_documentation_is_one(tmp_path: Path) -> None:
    text = Path("docs/reference/settings.md").read_text(encoding="utf-8")
    example = text.split("```toml\n")[1].split("```")[0]
    found = config(tmp_path, example)
    assert [tenant.name for tenant in found.tenants] == ["ads", "ops"]
    assert found.streams[0].path == str(tmp_path / "in/purchases")
    assert found.server.sinks == tmp_path / "out"


def test_options_of_the_command_line_win(tmp_path: Path) -> None:
    found = config(tmp_path, f"[server]\nport = 1\n{ENGINE}", port=99, host=None)
    assert (found.server.host, found.server.port) == ("127.0.0.1", 99)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "engine: Field required"),
        (f"{ENGINE}trigr = 1", "engine.trigr: Extra inputs are not permitted"),
        ("not toml", "is not TOML"),
        (f"[server]\nport = 70000\n{ENGINE}", "server.port: "),
        (f'[server]\nhost = "0.0.0.0"\n{ENGINE}', "there are no tenants"),
        (f'{ENGINE}[[tenants]]\nname = "a.b"\ntoken = "x"', "tenants.0.name: "),
        (f'{ENGINE}[[tenants]]\nname = "a"', "needs one of token"),
        (f'{ENGINE}[[streams]]\nname = "a"\ntime = "t"\n[[streams]]\nname = "a"\ntime = "t"', '"a" is there twice'),
        (f"{ENGINE}[limits]\nlive_queries = 0", "limits.live_queries: "),
        ('[engine]\npath = "s3a://bucket/state"', "engine.path: it has a scheme"),
        (f'[server]\nsinks = "s3a://bucket/out"\n{ENGINE}', "server.sinks: it has a scheme"),
        (f'[server]\ninputs = ["hdfs:/in"]\n{ENGINE}', "server.inputs.0: it has a scheme"),
        (f'{ENGINE}[[streams]]\nname = "a"\npath = "s3a://b/x"\ntime = "t"', 'stream "a": its path has a scheme'),
        (f'{ENGINE}batch_limit = "soon"', "engine.batch_limit: "),
        (f'[server]\nstop_timeout = "0 seconds"\n{ENGINE}', "server.stop_timeout: "),
        (f'[server]\nsecrets = ["NAME"]\n{ENGINE}', "server.secrets.0: give env:NAME or file:/path"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidSetting) as error:
        config(tmp_path, text)
    assert message in error.value.message


def test_spark_reads_from_anywhere(tmp_path: Path) -> None:
    text = f'{ENGINE}[[streams]]\nname = "a"\nformat = "text"\npath = "s3a://b/x"\ntime = "t"'
    assert config(tmp_path, text).streams[0].path == "s3a://b/x"


def test_an_error_never_shows_a_token(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting) as error:
        config(tmp_path, f'{ENGINE}[[tenants]]\nname = "a"\ntoken = "very-secret"\ntoken_env = "X"')
    assert "very-secret" not in str(error.value)
    assert "very-secret" not in repr(config(tmp_path, f'{ENGINE}[[tenants]]\nname = "a"\ntoken = "very-secret"'))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"none\.toml"):
        read_config(tmp_path / "none.toml")


def test_tokens_come_from_where_the_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("from-a-file\n", encoding="utf-8")
    monkeypatch.setenv("THE_TOKEN", "from-the-environment")
    text = '[[tenants]]\nname = "{}"\n{}\n'
    parts = {"a": 'token = "from-the-text"', "b": 'token_file = "token"', "c": 'token_env = "THE_TOKEN"'}
    found = config(tmp_path, ENGINE + "".join(text.format(*part) for part in parts.items()))
    assert [token_of(tenant) for tenant in found.tenants] == ["from-the-text", "from-a-file", "from-the-environment"]


@pytest.mark.parametrize("token", ["short", "x" * 2000, "with a ü in it"])
def test_what_is_no_token_is_refused(tmp_path: Path, token: str) -> None:
    tenant = config(tmp_path, f'{ENGINE}[[tenants]]\nname = "a"\ntoken = "{token}"').tenants[0]
    with pytest.raises(InvalidSetting, match="its token is not one"):
        token_of(tenant)


def test_a_tenant_has_the_limits_of_all_unless_it_has_its_own() -> None:
    general = Limits(live_queries=10, creates_per_minute=5)
    assert Limits(live_queries=3).over(general) == Limits(live_queries=3, creates_per_minute=5)


def test_variables_that_spark_never_inherits(tmp_path: Path) -> None:
    tenants = '[[tenants]]\nname = "a"\ntoken_env = "A_TOKEN"\n[[tenants]]\nname = "b"\ntoken = "x"\n'
    stream = '[[streams]]\nname = "k"\nformat = "kafka"\ntime = "t"\noptions = { a = "env:JAAS", b = "file:/x" }\n'
    found = config(tmp_path, f'[server]\nsecrets = ["env:S3", "file:/y"]\n{ENGINE}{tenants}{stream}')
    assert sorted(found.secret_variables) == ["A_TOKEN", "JAAS", "S3"]
    assert found.spark.pass_env == ()
