"""The frozen teacher of a distillation: its form and its weights, from whatever `distill.teacher` names."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from torch import Tensor

from panendofm.backbone import ViTConfig, load_backbone, merge_adapters, read_tensors
from panendofm.backbone.networks import names_a_family
from panendofm.records.run import RunFolder, is_whole_checkpoint, run_of
from panendofm.runtime.config import CONFIGS, load_config
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from pretrain.config import PretrainConfig
from pretrain.objective.distillation.foreign_teacher import foreign_form
from pretrain.objective.distillation.objective import TeacherForm


def teacher_form(config: PretrainConfig) -> TeacherForm | None:
    """Of the teacher, with the students that it teaches; None for a run that does not distill."""
    return None if config.distill.teacher is None else _with_students(_teacher_form(config), config)


def _with_students(form: TeacherForm, config: PretrainConfig) -> TeacherForm:
    students = {name: config.of_student(name).model.vit() for name in config.distill.students}
    return replace(form, further_students=students)


def _teacher_form(config: PretrainConfig) -> TeacherForm:
    assert config.distill.teacher is not None
    own = config.model.vit().patch_px
    if names_a_family(config.distill.teacher):
        return TeacherForm(foreign_form(config.distill.teacher, own, config.augment.global_px))
    vit = load_backbone(config.distill.teacher).model.config
    if vit.patch_px != own:
        raise UserError(
            f"distill.teacher={config.distill.teacher} has patches of {vit.patch_px} px, the student's have {own} px: "
            "patches are compared one by one, so choose a model.name with the teacher's."
        )
    checkpoint = _checkpoint_with_heads(config)
    run = None if checkpoint is None else run_of(checkpoint)
    return TeacherForm(vit) if run is None else _form_of(vit, load_config(PretrainConfig, run.config))


def planned_teacher_form(config: PretrainConfig) -> TeacherForm | None:
    """The same before the teacher is trained: a run that is not there yet has the shipped config of its name."""
    path = Path(config.distill.teacher or "")
    recipe = CONFIGS / "pretrain" / f"{path.name}.yaml"
    if config.distill.teacher is None or path.exists() or not recipe.is_file():
        return teacher_form(config)
    planned = load_config(PretrainConfig, recipe, ["run.dir=planned", "data.shards=planned"])
    _say_planned(config.distill.teacher, recipe.name)
    vit = planned.model.vit()
    form = TeacherForm(vit) if config.distill.loss == "features" else _form_of(vit, planned)
    return _with_students(form, config)


@cache
def _say_planned(teacher: str, recipe: str) -> None:
    say(f"{teacher} does not exist yet: a run of {recipe} is taken for it")


def _form_of(vit: ViTConfig, run: PretrainConfig) -> TeacherForm:
    """A network with the heads of its run."""
    objective = run.objective
    return TeacherForm(vit, objective.dino_head, objective.ibot_head if objective.separate_ibot_head else None)


def teacher_state(config: PretrainConfig, form: TeacherForm) -> dict[str, Tensor]:
    """The weights of backbone and heads; none of a network of another family, which is not part of the state."""
    if not isinstance(form.network, ViTConfig):
        say(f"distilling from {config.distill.teacher} (another family, by its features)")
        return {}
    checkpoint = _checkpoint_with_heads(config) if form.has_heads else None
    if checkpoint is None:
        assert config.distill.teacher is not None
        loaded = load_backbone(config.distill.teacher)
        say(f"distilling from {config.distill.teacher} ({loaded.architecture}, by its features)")
        return {f"backbone.{name}": tensor for name, tensor in loaded.model.state_dict().items()}
    say(f"distilling from {checkpoint} (by its heads' prototypes)")
    return merge_adapters(read_tensors(checkpoint, "teacher."))


def _checkpoint_with_heads(config: PretrainConfig) -> Path | None:
    """The checkpoint whose heads are to be matched; None where there are none, or where features are asked for."""
    if config.distill.loss == "features":
        return None
    path = Path(config.distill.teacher or "")
    if RunFolder(path).is_run():
        path = RunFolder(path).selected_or_latest()
    run = run_of(path) if is_whole_checkpoint(path) else None
    if run is None or load_config(PretrainConfig, run.config).objective.kind != "dinov2":
        return None
    return path
