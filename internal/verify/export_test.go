package verify

// Which tables the copy keeps, and which it empties.
var (
	KeptTables    = keptTables
	EmptiedTables = emptiedTables
)
