from .rank.ranking import Ranking, read_ranking

__all__ = [
    "Ranking",
    "read_ranking",
]
