"""Files that challenges exchange: submissions, findings, annotations."""
