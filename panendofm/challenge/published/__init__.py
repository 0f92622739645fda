"""Published rows: data files that are shown beside ours and never mixed with them."""
