"""A batch to losses: student, teacher, targets, anchors."""
