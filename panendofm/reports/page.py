"""Pages as Jinja2 templates over one frame. They need no other file and no network.

A package keeps its templates in its folder `templates/`:

    {% extends "frame.html" %}
    {% import "parts.html" as parts %}
    {% block body %}
    <h1>{{ title }}</h1>
    {% call parts.section("Scores") %}{{ parts.table(scores) }}{{ chart }}{% endcall %}
    {% endblock %}

and renders them with `render_page("panendofm.challenge", "score.html", title="…", scores=Table(…), chart=…)`. All text
is escaped; only charts and macros, which are Markup, go in as they are. A name that the template asks for and nobody
gave is an error.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cache

import jinja2

from panendofm.reports import numbers


@dataclass(frozen=True)
class PageImage:
    """An image inside the page, with a caption below it; `content` is None where the file can't be shown."""

    content: bytes | None
    caption: str = ""
    format: str = "jpeg"

    @property
    def url(self) -> str:
        return data_url(self.content or b"", self.format)


def data_url(content: bytes, image_format: str = "png") -> str:
    return f"data:image/{image_format};base64,{base64.b64encode(content).decode()}"


def render_page(package: str, template: str, **context: object) -> str:
    """A whole HTML document from PACKAGE's templates/TEMPLATE. The context needs `title`."""
    return _environment(package, escape=True).get_template(template).render(context)


def render_text(package: str, template: str, **context: object) -> str:
    """Markdown or plain text from PACKAGE's templates/TEMPLATE: nothing is escaped."""
    return _environment(package, escape=False).get_template(template).render(context)


@cache
def _environment(package: str, escape: bool) -> jinja2.Environment:
    loaders = [jinja2.PackageLoader(name) for name in (package, "panendofm.reports")]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not escape,
    )
    environment.filters["number"] = numbers.number
    environment.filters["signed"] = numbers.signed
    environment.filters["percent"] = numbers.percent
    return environment
