"""Mistakes in a configuration end in one sentence that names the file, the key and the nearest valid key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from panendofm.runtime.config import config_to_yaml, keys_of, load_config, option, required, save_config
from panendofm.runtime.errors import UserError


@dataclass
class CropConfig:
    size_px: int = option("Side of a crop.", 224)
    scale: tuple[float, float] = option("Share of the image's area.", (0.32, 1.0))


@dataclass
class CorpusConfig:
    root: str = required("Folder of the corpus.")
    weight: float = option("Share in the mixture.", 1.0)


@dataclass
class StageConfig:
    shards: str = required("Folder of shards.")
    crop: CropConfig = option("Crops.", CropConfig())
    anchor: CropConfig | None = option("An optional section.", None)
    corpora: list[CorpusConfig] = option("The corpora.", [])
    device: Literal["cpu", "cuda"] = option("Where to compute.", "cpu")
    limit: int | None = option("At most so many.", None)

    def check(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UserError(f"the key 'limit' must be at least 1, not {self.limit}.")


def load(*overrides: str) -> StageConfig:
    return load_config(StageConfig, None, list(overrides))


def message(*overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load(*overrides)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_file_then_command_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("shards: /data\ncrop:\n  size_px: 98\n  scale: [0.1, 0.5]\nlimit: 3\n")
    config = load_config(StageConfig, file, ["crop.size_px=56", "corpora=[{root: x}, {root: y, weight: 2}]"])
    assert config.crop == CropConfig(56, (0.1, 0.5))
    assert config.shards == "/data"
    assert config.limit == 3
    assert config.corpora == [CorpusConfig("x", 1.0), CorpusConfig("y", 2.0)]


def test_extends_is_read_first_and_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("shards: base\ncrop: {size_px: 98}\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "child.yaml").write_text("extends: ../base.yaml\nshards: child\n")
    config = load_config(StageConfig, tmp_path / "sub" / "child.yaml")
    assert (config.shards, config.crop.size_px) == ("child", 98)


def test_extends_in_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: b.yaml\n")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\n")
    with pytest.raises(UserError, match="circle"):
        load_config(StageConfig, tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("shrads=x", "command line: unknown key 'shrads'; did you mean 'shards'?"),
        ("crop.sizepx=1", "unknown key 'crop.sizepx'; did you mean 'crop.size_px'?"),
        ("size_px=1", "unknown key 'size_px'; did you mean 'crop.size_px'?"),
        ("crop.zzz=1", "unknown key 'crop.zzz'; valid here: size_px, scale."),
        ("anchor.sizepx=1", "did you mean 'anchor.size_px'?"),
        ("corpora=[{rot: x}]", "unknown key 'corpora.0.rot'; did you mean 'corpora.0.root'?"),
        ("crop.size_px=big", "the key 'crop.size_px' must be int"),
        ("device=gpu", "the key 'device' must be cpu|cuda"),
        ("crop=3", "'crop' is a section, not a value; set its keys: crop.size_px, crop.scale."),
        ("limit=0", "the key 'limit' must be at least 1"),
    ],
)
def test_mistakes_on_the_command_line(override: str, says: str) -> None:
    assert says in message("shards=x", override)


def test_a_missing_value_is_named_with_its_explanation() -> None:
    assert message() == (
        "command line: the key 'shards' has no value (Folder of shards); "
        "give it in the file or as shards=… on the command line."
    )
    assert "'corpora[0].root' has no value" in message("shards=x", "corpora=[{weight: 1}]")


def test_a_mistake_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    for text, says in [
        ("shrads: x\n", "unknown key 'shrads'; did you mean 'shards'?"),
        ("crop: {size_px: [1]}\n", "the key 'crop.size_px' must be int"),
        ("a: b: c\n", "not valid YAML at line 1"),
        ("- a\n", "holds a list"),
    ]:
        file.write_text(text)
        with pytest.raises(UserError) as caught:
            load_config(StageConfig, file)
        assert str(caught.value).startswith(f"{file}: ")
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "panendo.yaml").write_text("")
    with pytest.raises(UserError, match=r"does not exist; did you mean .*panendo\.yaml\?"):
        load_config(StageConfig, tmp_path / "panendoo.yaml")


def test_the_stored_config_reads_back_equal(tmp_path: Path) -> None:
    config = load("shards=x", "corpora=[{root: y}]", "limit=2", "crop.scale=[0.5,0.6]", "anchor={size_px: 3}")
    save_config(config, tmp_path / "config.yaml")
    assert load_config(StageConfig, tmp_path / "config.yaml") == config
    assert (tmp_path / "config.yaml").read_text() == config_to_yaml(config)


def test_every_key_is_described() -> None:
    keys = {key.name: key for key in keys_of(StageConfig)}
    assert list(keys) == [
        *("shards", "crop.size_px", "crop.scale", "anchor.size_px", "anchor.scale"),
        *("corpora", "corpora[].root", "corpora[].weight", "device", "limit"),
    ]
    assert keys["device"].type == "cpu|cuda"
    assert keys["limit"].type == "int or null"
    assert keys["shards"].default == "required"
    assert keys["crop.scale"].default == "[0.32, 1.0]"
    assert all(key.help for key in keys.values())


def test_defaults_are_not_shared_between_configs() -> None:
    one, other = load("shards=x"), load("shards=x")
    one.corpora.append(CorpusConfig("z"))
    one.crop.size_px = 1
    assert other.corpora == []
    assert other.crop.size_px == 224


@dataclass
class Numbers:
    share: float = option("A share.", 0.5, low=0, high=1)
    rate: float = option("Above nothing.", 1.0, above=0)
    beta: float = option("Below one.", 0.9, low=0, below=1)
    sizes: list[int] = option("Sizes.", [1, 2], low=1)
    limit: float | None = option("A limit or none.", None, above=0)
    free: float = option("Any finite number.", 0.0)


@dataclass
class WithNumbers:
    inner: Numbers = option("", Numbers())
    many: dict[str, Numbers] = option("", {})
    path: str = option("A folder.", "x")


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("inner.share=1.5", "'inner.share' is 1.5, but must be at least 0 and at most 1"),
        ("inner.share=.nan", "'inner.share' is nan, but must be at least 0 and at most 1"),
        ("inner.free=.inf", "'inner.free' is inf, but must be a finite number"),
        ("inner.free=-.inf", "must be a finite number"),
        ("inner.rate=0", "'inner.rate' is 0.0, but must be above 0"),
        ("inner.beta=1", "'inner.beta' is 1.0, but must be at least 0 and below 1"),
        ("inner.sizes=[3,0]", r"'inner.sizes\[1\]' is 0, but must be at least 1"),
        ("inner.limit=-1", "'inner.limit' is -1.0, but must be above 0"),
        ("many.ri-vce.share=2", "'many.ri-vce.share' is 2.0"),
        ("path=${path}", "refers to itself|[Rr]ecursive"),
    ],
)
def test_numbers_out_of_their_range_are_named(override: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        load_config(WithNumbers, overrides=[override])


def test_ranges_are_part_of_the_help_and_their_limits_are_inside() -> None:
    described = {key.name: key.range for key in keys_of(WithNumbers)}
    assert described["inner.share"] == "at least 0 and at most 1" and described["inner.free"] == ""
    words = ["inner.share=1", "inner.beta=0", "inner.limit=null", "many.ri-vce.share=0"]
    config = load_config(WithNumbers, overrides=words)
    assert (config.inner.share, config.inner.beta, config.many["ri-vce"].share) == (1, 0, 0)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"path: a\npath: b\n", r"line 2.*'path' stands there twice"),
        (b"inner: {share: 0.1}\ninner: {share: 0.2}\n", r"'inner' stands there twice"),
        (b"inner: {share: 0.1, share: 0.2}\n", r"'share' stands there twice"),
        (b"path: \xff\xfe\n", "not UTF-8"),
        (b"inner: &a\n  share: *a\n", "reference \\*a is not supported"),
        (b"a: &a [x, x]\nb: &b [*a, *a]\n", "reference \\*a is not supported"),
        (b"[" * 5000, "nested too deeply|not valid YAML"),
        (b"path: 2026-99-99\n", "not valid YAML"),
        (b"path: \x00\n", "not valid YAML"),
    ],
)
def test_files_that_yaml_would_take_silently_or_choke_on(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=says) as caught:
        load_config(WithNumbers, path)
    assert str(path) in str(caught.value)


@dataclass
class _Inner:
    ramp: str = option("Time.", "4 steps", was="ease")


@dataclass
class _Renamed:
    warm_start: _Inner = option("Section.", _Inner(), was="warmup")
    named: dict[str, _Inner] = option("Sections by name.", {})


def test_a_key_is_read_under_its_earlier_name_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "old.yaml"
    path.write_text("warmup: {ease: 7 steps}\nnamed: {first: {ease: 5 steps}}\n")
    config = load_config(_Renamed, path)
    assert config.warm_start.ramp == "7 steps" and config.named["first"].ramp == "5 steps"
    printed = "".join(capsys.readouterr())
    assert "the key 'warmup' is called 'warm_start' now" in printed
    assert "the key 'warm_start.ease' is called 'warm_start.ramp' now" in printed
    assert "the key 'named.first.ease' is called 'named.first.ramp' now" in printed
    assert load_config(_Renamed, path, ["warm_start.ramp=9 steps"]).warm_start.ramp == "9 steps"
    assert "ease" not in config_to_yaml(config)
    path.write_text("warm_start: {ease: 7 steps, ramp: 8 steps}\n")
    with pytest.raises(UserError, match=r"'warm_start\.ease' and 'warm_start\.ramp' are the same key"):
        load_config(_Renamed, path)
    with pytest.raises(UserError, match=r"unknown key 'warm_start\.eased'; did you mean"):
        load_config(_Renamed, None, ["warm_start.eased=1"])


@dataclass
class NamedConfig:
    run: str | None = option("Which run.", None)
    corpus: CorpusConfig = option("", CorpusConfig("here"))


@pytest.mark.parametrize("typed", ["01", "2026-01-02", "1e3", "yes", "0x1f"])
def test_text_stays_as_typed_where_yaml_sees_a_number_or_a_date(typed: str) -> None:
    config = load_config(NamedConfig, overrides=[f"run={typed}", f"corpus.root={typed}"])
    assert (config.run, config.corpus.root) == (typed, typed)
    assert load_config(NamedConfig, overrides=["run=null"]).run is None
    assert load_config(NamedConfig, overrides=["run='quoted: 1'"]).run == "quoted: 1"


@dataclass
class _Texts:
    path: str = option("A path.", "x")
    note: str | None = option("A note.", None)
    names: list[str] = option("Names.", [])


def test_values_from_outside_are_refused_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2")
    file = tmp_path / "a.yaml"
    for text in ("path: ${oc.env:MY_SECRET}", "names: ['${oc.env:MY_SECRET}']", "path: a/${oc.decode:${oc.env:X}}"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match="asks for a value from outside") as caught:
            load_config(_Texts, file)
        assert "hunter2" not in str(caught.value)
    with pytest.raises(UserError, match="asks for a value from outside"):
        load_config(_Texts, None, ["note=${oc.env:MY_SECRET}"])
    assert load_config(_Texts, None, ["path=a", "note=${path}/b"]).note == "a/b"


def test_words_that_yaml_takes_for_truth_values(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    for word in ("no", "off", "yes", "True"):
        file.write_text(f"path: {word}", encoding="utf-8")
        with pytest.raises(UserError, match=r"'path' is text.*put it in quotes"):
            load_config(_Texts, file)
    file.write_text("path: 'no'", encoding="utf-8")
    assert load_config(_Texts, file).path == "no"
    assert load_config(_Texts, None, ["path=no"]).path == "no"


def test_nul_characters_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text('path: "a\\0b"', encoding="utf-8")
    with pytest.raises(UserError, match="NUL"):
        load_config(_Texts, file)
    with pytest.raises(UserError, match="NUL"):
        load_config(_Texts, None, ["path=a\0b"])
