package state

// schema holds one step per version; a file's user_version says how many of
// them it has seen. Steps are only ever added.
var schema = []string{
	`
CREATE TABLE slots    (num INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
CREATE TABLE pool     (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE events   (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, worker TEXT NOT NULL,
                       kind TEXT NOT NULL, was TEXT NOT NULL, now TEXT NOT NULL, reason TEXT NOT NULL,
                       fields TEXT NOT NULL) STRICT;
CREATE INDEX events_of_worker ON events (worker, id);
CREATE TABLE sessions (num INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, worker TEXT NOT NULL,
                       began INTEGER NOT NULL, ended INTEGER NOT NULL, ending TEXT NOT NULL) STRICT;
CREATE INDEX sessions_open ON sessions (worker) WHERE ended = 0;
CREATE TABLE logs     (slot INTEGER PRIMARY KEY, position TEXT NOT NULL) STRICT;
`,
}
