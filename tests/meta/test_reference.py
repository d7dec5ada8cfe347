"""The pages of docs/reference describe the code: each name, default and number is on both sides."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.routing import Mount, Route
from typer.main import get_command
from typing_extensions import is_typeddict

import weft
import weft.errors
from tests.meta.pages import named, numbered, page, rows, sections
from tests.meta.project import ROOT, SOURCE, python_files
from weft.cli.app import app as command_line
from weft.cli.failures import exit_code
from weft.engine.batches.lifecycle import Health
from weft.errors import WeftError
from weft.plan.stream import Stream
from weft.service.client import Client
from weft.service.config import (
    Config,
    EngineSection,
    Limits,
    ServerSection,
    SparkSection,
    StreamSpec,
    TenantSection,
    to_config,
)
from weft.service.host import Host
from weft.service.http import metrics, shapes
from weft.service.http.app import make_app
from weft.service.http.errors import status_of
from weft.service.service import Service
from weft.service.tenancy.tenants import Tenants
from weft.sql import parse_duration
from weft.storage.journal import StreamTotals

ERRORS = [
    kind
    for _, kind in inspect.getmembers(weft.errors, inspect.isclass)
    if issubclass(kind, WeftError) and kind.__module__ == weft.errors.__name__
]


# ---- python.md

OWNERS: dict[str, type] = {"engine": weft.Engine, "query": weft.Query, "client": Client}
VALUES: dict[str, type] = {"summary": weft.BatchSummary, "totals": StreamTotals, "stream": Stream, "health": Health}


def described(owner: str) -> dict[str, str]:
    """Names below an owner that have a heading, with the signature that follows it; empty if there is none."""
    heading = rf"^#+ `{re.escape(owner)}\.(?P<name>\w+)`\n(?:\n```python\n(?P<text>[^`]+)```)?"
    found = list(re.finditer(heading, page("python"), re.MULTILINE))
    assert len({each["name"] for each in found}) == len(found), "a name has two headings"
    return {each["name"]: (each["text"] or "").strip() for each in found}


def members(kind: type) -> dict[str, Any]:
    """The public methods and properties of a class."""
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


def is_same(written: ast.expr, default: object) -> bool:
    """Whether a default is written as the code has it: `...` stands for a function."""
    value = ast.literal_eval(written)
    if callable(default):
        return value is ...
    return (parse_duration(value) if isinstance(default, timedelta) else value) == default


def check_signature(text: str, function: Callable[..., Any]) -> None:
    """A written signature has the parameters of a function, in their order, with their defaults."""
    definition = ast.parse(f"def {text}: ...").body[0]
    assert isinstance(definition, ast.FunctionDef)
    written = definition.args
    known = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    by_place = [each.name for each in known if each.kind is each.POSITIONAL_OR_KEYWORD]
    by_name = [each.name for each in known if each.kind is each.KEYWORD_ONLY]
    assert [each.arg for each in written.args] == by_place
    assert [each.arg for each in written.kwonlyargs] == by_name
    last = written.args[len(written.args) - len(written.defaults) :]
    pairs = [*zip(last, written.defaults, strict=True), *zip(written.kwonlyargs, written.kw_defaults, strict=True)]
    defaults = {argument.arg: value for argument, value in pairs if value is not None}
    others = {each.name: each.default for each in known if each.default is not each.empty}
    assert defaults.keys() == others.keys()
    assert [name for name, default in others.items() if not is_same(defaults[name], default)] == []


def test_every_public_name_has_a_heading() -> None:
    assert set(described("weft")) == set(weft.__all__)


@pytest.mark.parametrize("owner", OWNERS)
def test_every_method_and_property_has_a_heading(owner: str) -> None:
    assert set(described(owner)) == set(members(OWNERS[owner]))


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, kind in OWNERS.items() for name in members(kind)])
def test_signatures_of_members_are_those_of_the_code(owner: str, name: str) -> None:
    member, text = members(OWNERS[owner])[name], described(owner).get(name, "")
    if isinstance(member, property):
        assert text.startswith(f"{owner}.{name}: ")
    else:
        assert text.startswith(f"{owner}.{name}(")
        check_signature(text.removeprefix(f"{owner}."), member)


@pytest.mark.parametrize("name", ["Engine", "callback", "files", "parquet"])
def test_signatures_of_functions_are_those_of_the_code(name: str) -> None:
    check_signature(described("weft")[name].removeprefix("weft."), getattr(weft, name))


def test_the_signature_of_the_client_is_that_of_the_code() -> None:
    check_signature(described("weft.service.client")["Client"].removeprefix("weft.service.client."), Client)


@pytest.mark.parametrize("prefix", VALUES)
def test_every_attribute_of_a_value_is_listed(prefix: str) -> None:
    kind = VALUES[prefix]
    known = {each.name for each in dataclasses.fields(kind)}
    known |= {name for name, value in vars(kind).items() if isinstance(value, property)}
    assert set(re.findall(rf"^\| `{prefix}\.(\w+)` \|", page("python"), re.MULTILINE)) == known


# ---- cli.md

SHARED = {"--server", "--path", "--token-file", "--json"}
"""Options that commands have besides their own; they are described once."""


def options_of(command: Any) -> set[str]:
    return {option for each in command.params if each.param_type_name == "option" for option in each.opts}


def commands(words: str, command: Any) -> Iterator[tuple[str, set[str]]]:
    """Every command by the words that call it, with its options."""
    below = getattr(command, "commands", None)
    if below is None:
        yield words, options_of(command)
        return
    for name, each in below.items():
        yield from commands(f"{words} {name}", each)


def listed_options(text: str) -> set[str]:
    return {name.split()[0] for name in named(text) if name.startswith("--")}


def test_every_command_has_a_section() -> None:
    assert set(sections(page("cli"), 3)) == dict(commands("weft", get_command(command_line))).keys()


def test_every_option_of_a_command_is_listed() -> None:
    written = sections(page("cli"), 3)
    wrong = {
        words: listed
        for words, known in commands("weft", get_command(command_line))
        if not known - SHARED <= (listed := listed_options(written.get(words, ""))) <= known
    }
    assert wrong == {}


def test_every_option_before_the_command_is_listed() -> None:
    written = sections(page("cli"), 2)["Options before the command"]
    assert listed_options(written) == options_of(get_command(command_line))


def test_exit_codes_are_those_of_the_code() -> None:
    written = numbered(sections(page("cli"), 2)["Exit codes"])
    assert written == {kind.code: exit_code(kind("it is so")) for kind in ERRORS}


# ---- rest.md

PLACES = {"path", "query", "header", "body"}
INLINE = {"Queries", "QueryFigures", "QueryPage", "Streams", "Summary"}
"""Shapes that are written out where they are used."""


@pytest.fixture(scope="module")
def application() -> FastAPI:
    config = Config(engine=EngineSection(path=Path("state")))
    return make_app(Service(config, cast(Host, SimpleNamespace()), Tenants({}, ())))


def operations(application: FastAPI) -> dict[str, dict[str, Any]]:
    """The requests of the OpenAPI document by method and path."""
    paths = application.openapi()["paths"].items()
    return {f"{method.upper()} {path}": each for path, methods in paths for method, each in methods.items()}


def routes() -> dict[str, str]:
    found = sections(page("rest"), 3)
    return {title: text for title, text in found.items() if re.match(r"[A-Z]+ /", title)}


def test_every_route_has_a_section(application: FastAPI) -> None:
    assert set(routes()) == set(operations(application))


def test_every_parameter_of_a_route_is_listed(application: FastAPI) -> None:
    schemas = application.openapi()["components"]["schemas"]
    known = {}
    for title, operation in operations(application).items():
        known[title] = {(each["in"], each["name"].lower()) for each in operation.get("parameters", ())}
        if "requestBody" in operation:
            body = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
            known[title] |= {("body", name) for name in schemas[body]["properties"]}
    written = {
        title: {(cells[1], cells[0].strip("`").lower()) for cells in rows(text) if cells[1] in PLACES}
        for title, text in routes().items()
    }
    assert written == known


def test_every_page_is_listed(application: FastAPI) -> None:
    in_document = application.openapi()["paths"]
    known = {f"GET {route.path}/{{path}}" for route in application.routes if isinstance(route, Mount)}
    for route in application.routes:
        if isinstance(route, Route) and route.path not in in_document:
            known |= {f"{method} {route.path}" for method in (route.methods or set()) - {"HEAD"}}
    assert set(named(sections(page("rest"), 2)["Pages"])) == known


def test_every_field_of_a_shape_is_listed() -> None:
    known = {
        name: set(kind.__required_keys__ | kind.__optional_keys__)
        for name, kind in vars(shapes).items()
        if name != "TypedDict" and is_typeddict(kind)
    }
    assert known.keys() >= INLINE
    listed = sections(sections(page("rest"), 2)["Shapes"], 3)
    written = {name: set(named(text)) for name, text in listed.items()}
    assert written == {name: fields for name, fields in known.items() if name not in INLINE}


def test_statuses_are_those_of_the_code() -> None:
    written = numbered(sections(page("rest"), 2)["Errors"])
    assert written == {kind.code: status_of(kind("it is so")) for kind in ERRORS}


# ---- settings.md

TABLES: dict[str, type[BaseModel]] = {
    "[server]": ServerSection,
    "[engine]": EngineSection,
    "[spark]": SparkSection,
    "[[streams]]": StreamSpec,
    "[limits]": Limits,
    "[[tenants]]": TenantSection,
}
PARAMETERS: dict[str, Callable[..., Any]] = {
    "weft.Engine parameters": weft.Engine,
    "engine.stream parameters": weft.Engine.stream,
    "weft.files parameters": weft.files,
}


def listed_defaults(title: str) -> dict[str, str]:
    return {cells[0].strip("`"): cells[2] for cells in rows(sections(page("settings"), 2)[title])}


def as_written(default: object) -> str:
    return "none" if default is None else f"`{json.dumps(default)}`"


def field_default(field: FieldInfo) -> str:
    return "required" if field.is_required() else as_written(field.get_default(call_default_factory=True))


def is_written(text: str, parameter: inspect.Parameter) -> bool:
    default = parameter.default
    if default is parameter.empty:
        return text == "required"
    if isinstance(default, timedelta):
        return parse_duration(text.strip('`"')) == default
    return text == ("a function" if callable(default) else as_written(default))


def test_every_section_of_the_configuration_is_checked() -> None:
    assert {title.strip("[]") for title in TABLES} == set(Config.model_fields)


@pytest.mark.parametrize("title", TABLES)
def test_every_key_of_the_configuration_is_listed_with_its_default(title: str) -> None:
    kind = TABLES[title]
    own = kind.model_fields.keys() - (Limits.model_fields.keys() if kind is TenantSection else set())
    known = {each.alias or name: field_default(each) for name, each in kind.model_fields.items() if name in own}
    assert listed_defaults(title) == known


@pytest.mark.parametrize("title", PARAMETERS)
def test_every_parameter_is_listed_with_its_default(title: str) -> None:
    written = listed_defaults(title)
    known = {name: each for name, each in inspect.signature(PARAMETERS[title]).parameters.items() if name != "self"}
    assert written.keys() == known.keys()
    assert [name for name, text in written.items() if not is_written(text, known[name])] == []


def test_every_environment_variable_is_listed() -> None:
    files = python_files(*(SOURCE / folder for folder in ("cli", "engine", "service", "spark")))
    known = {name for path in files for name in re.findall(r"\bWEFT_[A-Z_]+", path.read_text(encoding="utf-8"))}
    listed = named(sections(page("settings"), 2)["Environment variables"])
    assert {name for name in listed if name.startswith("WEFT_")} == known


def test_every_setting_of_spark_is_listed() -> None:
    texts = [path.read_text(encoding="utf-8") for path in python_files(SOURCE / "spark")]
    known = {name for text in texts for name in re.findall(r'"(spark\.weft\.[a-z.]+)"', text)}
    listed = named(sections(page("settings"), 2)["Settings of Spark"])
    assert {name for name in listed if name.startswith("spark.weft.")} == known


@pytest.mark.parametrize("path", ["reference/settings.md", "how-to/tenants.md"])
def test_examples_of_the_configuration_can_be_read(path: str) -> None:
    text = (ROOT / "docs" / path).read_text(encoding="utf-8")
    examples = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        to_config({"engine": {"path": "state"}, **tomllib.loads(example)}, path)


# ---- metrics.md

KINDS = {"_gauge": "gauge", "GaugeMetricFamily": "gauge", "CounterMetricFamily": "counter"}


def known_metrics() -> dict[str, tuple[str, set[str]]]:
    """Type and labels of every metric that the code makes, by the name that Prometheus reads."""
    found = {}
    for call in ast.walk(ast.parse(inspect.getsource(metrics))):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in KINDS:
            continue
        if not isinstance(call.args[0], ast.Constant):  # where `_gauge` itself makes one
            continue
        kind, name = KINDS[call.func.id], str(call.args[0].value)
        labels = next((ast.literal_eval(each.value) for each in call.keywords if each.arg == "labels"), [])
        found[name + ("_total" if kind == "counter" else "")] = (kind, set(labels))
    return found


def test_every_metric_is_listed_with_type_and_labels() -> None:
    listed = {
        cells[0].strip("`"): (cells[1], set(re.findall(r"`(\w+)`", cells[2])))
        for cells in rows(page("metrics"))
        if cells[0].startswith("`weft_")
    }
    assert listed == known_metrics()


def test_alerts_name_metrics_that_exist() -> None:
    assert set(re.findall(r"\bweft_[a-z_]+", page("metrics"))) <= known_metrics().keys()
