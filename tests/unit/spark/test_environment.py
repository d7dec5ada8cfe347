"""What Spark's processes inherit, and what users read, without secrets."""

from __future__ import annotations

import pytest

from weft.spark.environment import child_environment, is_secret_variable, redacted

ORDINARY = {
    "PATH": "/usr/bin",
    "HOME": "/home/me",
    "PWD": "/work",
    "OLDPWD": "/",
    "JAVA_HOME": "/opt/java",
    "PYTHONPATH": "src",
    "SPARK_LOCAL_DIRS": "/scratch",
    "KEYBOARD": "de",
    "http_proxy": "http://proxy:3128",
    "PYTHONHASHSEED": "0",
    "AWS_REGION": "eu-central-1",
}
SECRET = {
    "WEFT_ADS_TOKEN": "t",
    "token": "t",
    "DB_PASSWORD": "p",
    "MYSQL_PWD": "p",
    "GITHUB_PAT": "p",
    "AWS_ACCESS_KEY_ID": "i",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_SESSION_TOKEN": "s",
    "OPENAI_API_KEY": "k",
    "SSH_PRIVATE_KEY": "k",
    "MyApiKey": "k",
    "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
    "DATABASE_URL": "postgres://me:hidden@db/x",
}


def test_ordinary_variables_are_inherited() -> None:
    assert child_environment(ORDINARY) == ORDINARY


@pytest.mark.parametrize("name", SECRET)
def test_what_looks_secret_is_not(name: str) -> None:
    assert is_secret_variable(name, SECRET[name])
    assert child_environment(ORDINARY | {name: SECRET[name]}) == ORDINARY


def test_an_administrator_may_pass_secrets_on() -> None:
    found = child_environment(ORDINARY | SECRET, pass_env=["AWS_*", "DATABASE_URL"])
    assert set(found) - set(ORDINARY) == {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "DATABASE_URL",
    }


def test_what_is_named_a_secret_is_one_whatever_it_is_called_and_passed() -> None:
    assert child_environment({"ADS": "t", "HOME": "/"}, secrets=["ADS"], pass_env=["*"]) == {"HOME": "/"}


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("cannot reach jdbc:postgresql://me:hidden@db/x", "cannot reach jdbc:postgresql://***@db/x"),
        ("login failed: password=hidden, user=me", "login failed: password=***, user=me"),
        ('{"fs.s3a.secret.key": "hidden"}', '{"fs.s3a.secret.key": ***}'),
        ("sasl.jaas.config: Password='hidden';", "sasl.jaas.config: Password=***;"),
        ("Authorization token: Bearer hidden", "Authorization token: ***"),
        ("denied for tok-1234", "denied for ***"),
        ("division by zero, see http://host:80/path", "division by zero, see http://host:80/path"),
    ],
)
def test_users_read_no_secrets(text: str, clean: str) -> None:
    assert redacted(text, {"WEFT_ADS_TOKEN": "tok-1234", "SHORT_TOKEN": "by", "HOME": "/path"}) == clean
