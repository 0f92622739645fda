"""The page of an atlas: where its images come from, the taxonomy with counts, what can be evaluated, quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from panendofm.atlas.build import Row
from panendofm.atlas.datasets import mapping as datasets
from panendofm.atlas.report.document import AtlasReport
from panendofm.atlas.report.tables import catalog_table, contradictions_of_table_one, quality_table, reach_table
from panendofm.atlas.taxonomy import Label, load_taxonomy
from panendofm.imaging.frame_filters.verdict import REASONS
from panendofm.imaging.images import open_image, thumbnail
from panendofm.reports import PageImage, Table, render_page
from panendofm.reports.charts import bar_chart

TITLE = "PanEndoAtlas"
_EXAMPLES, _EXAMPLE_PX = 4, 160


@dataclass
class Node:
    """A label of the tree with the number of its images; several labels may share an image."""

    name: str
    images: int = 0
    children: list[Node] = field(default_factory=list)

    def child(self, name: str) -> Node:
        found = next((node for node in self.children if node.name == name), None)
        if found is None:
            found = Node(name)
            self.children.append(found)
        return found


def atlas_page(report: AtlasReport, rows: Sequence[Row], mappings: Mapping[str, datasets.Mapping]) -> str:
    images = {name: counts.images for name, counts in report.info.datasets.items()}
    return render_page(
        "panendofm.atlas",
        "atlas.html",
        title=TITLE,
        report=report,
        images=len(rows),
        countries=bar_chart("Images by country", [(name, float(n)) for name, n in report.countries.items()]),
        tree=label_tree(report.labels).children,
        reach=reach_table(report.reach),
        nowhere=[one for one in report.reach if one.nowhere],
        catalog=catalog_table(mappings, images),
        contradictions=contradictions_of_table_one(mappings),
        quality=quality_table(report.quality),
        examples=_examples(rows),
        overlaps=Table(
            ["datasets", "equal files", "alike contents"],
            [[f"{pair.a} and {pair.b}", pair.identical_files, pair.alike_groups] for pair in report.overlaps],
        ),
    )


def label_tree(labels: Mapping[str, int]) -> Node:
    """The whole taxonomy, also what has no images; counts of a level are those of the levels below."""
    root = Node("")
    for finding in load_taxonomy().findings.values():
        root.child(finding.region).child(finding.category).child(finding.name)
    for text, count in labels.items():
        label = Label.parse(text)
        node = root
        names = [label.region, label.category, label.finding, *([label.grade] if label.grade else [])]
        for name in names:
            node = node.child(name)
            node.images += count
    return root


def _examples(rows: Sequence[Row]) -> list[PageImage]:
    """A few images of every reason, the same ones each time."""
    found = []
    for reason in REASONS:
        chosen = sorted((row for row in rows if reason in row.quality.reasons), key=lambda row: row.sha256)
        for row in chosen[:_EXAMPLES]:
            words = ", ".join(name.replace("_", " ") for name in row.quality.reasons)
            found.append(PageImage(thumbnail(open_image(row.path), _EXAMPLE_PX), f"{words} ({row.dataset})"))
    return found
