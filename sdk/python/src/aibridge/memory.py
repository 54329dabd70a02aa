"""What an agent remembers of its calls over restarts."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from typing import List, Optional, Tuple, Union

MAX_CALLS = 1024


class Memory:
    """Calls in a file: that each was begun, and its answer.

    A call is noted before its handler runs. After a crash one without an answer is
    known as begun, so it is not run again.
    """

    def __init__(self, folder: "Union[str, os.PathLike[str]]", agent_id: str) -> None:
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        name = "".join(c if c.isalnum() or c in "-_" else f"%{ord(c):x}" for c in agent_id)
        self._mutex = threading.Lock()
        self._db = sqlite3.connect(place / f"{name}.calls.db", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE IF NOT EXISTS calls (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, trace TEXT, answer BLOB)")
        self._begun = 0
        self._tidy()

    def load(self) -> List[Tuple[str, Optional[str], Optional[bytes]]]:
        """The calls, the oldest first: id, trace, and the answer, None if it is not known."""
        with self._mutex:
            return self._db.execute("SELECT id, trace, answer FROM calls ORDER BY seq").fetchall()

    def begin(self, id: str, trace: Optional[str]) -> None:
        """Note that a call is about to run. It is on disk when this returns."""
        with self._mutex:
            self._db.execute("INSERT OR IGNORE INTO calls (id, trace) VALUES (?, ?)", (id, trace))
            self._begun += 1
            if self._begun % 256 == 0:
                self._tidy()

    def answer(self, id: str, answer: bytes) -> None:
        """Keep the answer to a call that was begun; others are not kept."""
        with self._mutex:
            self._db.execute("UPDATE calls SET answer = ? WHERE id = ?", (answer, id))

    def forget(self, id: str) -> None:
        """Drop a call in which nothing has happened."""
        with self._mutex:
            self._db.execute("DELETE FROM calls WHERE id = ?", (id,))

    def _tidy(self) -> None:
        self._db.execute("DELETE FROM calls WHERE seq <= (SELECT MAX(seq) FROM calls) - ?", (MAX_CALLS,))

    def close(self) -> None:
        with self._mutex:
            self._db.close()
